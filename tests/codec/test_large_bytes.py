"""Megabytes are joined like a few bytes."""

from __future__ import annotations

import os
import sys
from threading import Event, Thread

import pytest

from kafka_sidecar.codec.large_bytes import MIN_LARGE_BYTES, Gathered, copy, join


@pytest.mark.parametrize("size", [0, 1, MIN_LARGE_BYTES - 1, MIN_LARGE_BYTES, MIN_LARGE_BYTES + 4097])
def test_the_parts_follow_each_other(size: int) -> None:
    value = os.urandom(size)
    view = memoryview(value)
    parts = [view[at : at + 300_000] for at in range(0, size, 300_000)]

    joined = join([b"", *parts])

    assert joined == value
    assert type(joined) is bytes


def test_what_is_not_bytes_is_refused() -> None:
    with pytest.raises(TypeError):
        join([bytes(MIN_LARGE_BYTES), "text"])  # type: ignore[list-item]


def test_the_room_for_the_rest_ends_before_the_last_byte() -> None:
    gathered = Gathered(10)
    gathered.add(b"012")
    assert len(gathered.room) == 6
    gathered.room[:4] = b"3456"
    gathered.fill(4)
    gathered.room[:] = b"78"
    gathered.fill(2)
    assert len(gathered.room) == 0
    gathered.add(b"9")
    assert gathered.whole() == b"0123456789"


def test_what_was_gathered_is_not_held() -> None:
    gathered = Gathered(100)
    gathered.add(bytes(100))
    whole = gathered.whole()
    assert sys.getrefcount(whole) == 2  # the variable, and the argument


def test_an_object_is_gathered_only_when_all_of_it_has_come() -> None:
    gathered = Gathered(10)
    gathered.add(b"01234")
    with pytest.raises(ValueError, match="5 bytes have come of 10"):
        gathered.whole()
    with pytest.raises(ValueError):
        gathered.add(b"567890")
    gathered.add(memoryview(b"56789"))
    assert gathered.whole() == b"0123456789"


def test_other_threads_run_while_megabytes_are_joined() -> None:
    parts, before = [bytes(32 << 20)] * 2, sys.getswitchinterval()
    sys.setswitchinterval(100.0)  # a thread runs only if another one releases the interpreter
    try:
        assert any(runs_during_a_join(parts) for _ in range(20))
    finally:
        sys.setswitchinterval(before)


def runs_during_a_join(parts: list[bytes]) -> bool:
    begins, ran = Event(), list[bool]()

    def run() -> None:
        begins.wait()
        ran.append(True)

    other = Thread(target=run)
    other.start()
    begins.set()
    join(parts)
    has_run = bool(ran)
    other.join()
    return has_run


@pytest.mark.parametrize("size", [0, 3, MIN_LARGE_BYTES + 1])
def test_a_copy_is_the_bytes_of_a_range(size: int) -> None:
    value = os.urandom(size + 20)
    for data in (value, memoryview(value)):
        copied = copy(data, 7, 7 + size)
        assert copied == value[7 : 7 + size]
        assert type(copied) is bytes
