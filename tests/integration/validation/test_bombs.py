"""Small batches that hold gigabytes, and lengths that promise them, are refused and leave the memory as it was."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest
from integration.scenarios.target import eventually
from integration.validation.batches import batch, good, record, sized, varint
from integration.validation.guarded import MAX_BATCH, Guarded
from integration.validation.wire import Wire
from support.bombs import gzip_of_zeros, lz4_of_zeros, xerial_of_zeros, zstd_of_zeros

pytestmark = pytest.mark.integration

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
AT_ONCE = 8


def zstd_of_size(declared: int) -> bytes:
    """A frame that says how much it holds, and lies."""
    return b"\x28\xb5\x2f\xfd" + bytes([0xE0]) + declared.to_bytes(8, "little") + b"\x01\0\0"


@dataclass(frozen=True, slots=True)
class Bomb:
    name: str
    made: Callable[[], bytes]

    def __str__(self) -> str:
        return self.name.replace(" ", "_")


NOTHING = b"\0\0\0" + varint(-1) * 2  # attributes, time, offset, key and value of a record
INFLATE = (
    Bomb("a gigabyte in gzip", lambda: batch(gzip_of_zeros(), 1, attributes=GZIP)),
    Bomb("128 megabytes in snappy blocks", lambda: batch(xerial_of_zeros(), 1, attributes=SNAPPY)),
    Bomb("a gigabyte in lz4", lambda: batch(lz4_of_zeros(), 1, attributes=LZ4)),
    Bomb("a gigabyte in zstd", lambda: batch(zstd_of_zeros(), 1, attributes=ZSTD)),
)
PROMISE = (
    Bomb("an exabyte promised by zstd", lambda: batch(zstd_of_size(1 << 60), 1, attributes=ZSTD)),
    Bomb("4 gigabytes promised by snappy", lambda: batch(b"\xff\xff\xff\xff\x0f" + bytes(9), 1, attributes=SNAPPY)),
    Bomb("2 to the 31 records", lambda: batch(record(0, b"v"), 2**31 - 1)),
    Bomb("2 to the 31 headers", lambda: batch(sized(NOTHING + varint(2**31 - 1)), 1)),
    Bomb("a value past the end", lambda: batch(sized(b"\0\0\0" + varint(-1) + varint(2**31 - 1)), 1)),
    Bomb("a record past the end", lambda: batch(varint(2**31 - 1) + bytes(9), 1)),
)


@pytest.fixture(scope="module")
def bombs() -> Mapping[Bomb, bytes]:
    return {bomb: bomb.made() for bomb in INFLATE + PROMISE}


@pytest.fixture(scope="module")
def topic(guarded: Guarded) -> str:
    return guarded.topic("header-bombs", AT_ONCE)


def refused(guarded: Guarded, topic: str, data: bytes, partition: int = 0) -> bool:
    with Wire(guarded.sidecar.bootstrap) as wire:
        return wire.produce(9, {topic: {partition: data}})[topic, partition].code != 0


@pytest.mark.parametrize("bomb", PROMISE, ids=str)
def test_a_promise_is_not_believed(guarded: Guarded, bombs: Mapping[Bomb, bytes], topic: str, bomb: Bomb) -> None:
    refused(guarded, topic, bombs[bomb])
    before = guarded.peak()
    assert all(refused(guarded, topic, bombs[bomb]) for _ in range(20))
    assert guarded.peak() - before < 4 << 20


@pytest.mark.parametrize("bomb", INFLATE, ids=str)
def test_what_inflates_beyond_the_limit_is_refused_in_little_memory_however_many_send_it_at_once(
    guarded: Guarded, bombs: Mapping[Bomb, bytes], topic: str, bomb: Bomb
) -> None:
    data, before, largest = bombs[bomb], guarded.resident(), max(map(len, bombs.values()))
    assert largest < 8 << 20
    with ThreadPoolExecutor(AT_ONCE) as pool:
        verdicts = list(pool.map(lambda partition: refused(guarded, topic, data, partition), range(AT_ONCE)))
    assert all(verdicts)
    # Two are inflated at once, in a buffer that grows; each request is there as it came and in one piece.
    assert guarded.peak() - before < 2 * 2 * MAX_BATCH + 2 * AT_ONCE * largest
    # The threads that validate give their last buffers back after the responses have left.
    eventually(guarded.resident, lambda now: now - before < 32 << 20, "memory is given back", 10)
    assert all(guarded.stored(topic, partition) == [] for partition in range(AT_ONCE))


def test_other_clients_are_served_while_many_small_bombs_are_validated(
    guarded: Guarded, bombs: Mapping[Bomb, bytes], topic: str
) -> None:
    small, other = bombs[INFLATE[-1]], guarded.topic("header-beside-bombs")
    served = 0
    with ThreadPoolExecutor(AT_ONCE) as pool, Wire(guarded.sidecar.bootstrap) as wire:
        bombing = [pool.submit(refused, guarded, topic, small, at % AT_ONCE) for at in range(10 * AT_ONCE)]
        while not all(one.done() for one in bombing):
            served += wire.produce(9, {other: {0: good([b"v"])}})[other, 0].code == 0
        assert all(one.result() for one in bombing)
    assert served > AT_ONCE


def test_good_records_pass_after_all_that(guarded: Guarded) -> None:
    topic = guarded.topic("header-after-bombs")
    with Wire(guarded.sidecar.bootstrap) as wire:
        assert wire.produce(9, {topic: {0: good([b"v"])}})[topic, 0].code == 0
    assert guarded.stored(topic) == [b"v"]
