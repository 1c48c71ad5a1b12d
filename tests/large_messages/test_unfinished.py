"""Assemblies that a later request goes on with."""

from __future__ import annotations

from kafka_sidecar.large_messages.assembly import Assembly
from kafka_sidecar.large_messages.cache import Place
from kafka_sidecar.large_messages.segment import Segment
from kafka_sidecar.large_messages.unfinished import Unfinished

FIRST, SECOND = Place("orders", 0, 5), Place("orders", 1, 5)


def assembly(size: int) -> Assembly:
    return Assembly(Segment(bytes(16), 0, 2, size, b"x"))


def test_an_assembly_is_taken_once() -> None:
    unfinished, one = Unfinished(1000), assembly(100)
    unfinished.put(FIRST, one)
    assert unfinished.bytes == 100
    assert unfinished.take(SECOND) is None
    assert unfinished.take(FIRST) is one
    assert unfinished.take(FIRST) is None
    assert unfinished.bytes == 0


def test_the_oldest_is_forgotten_first_and_one_is_always_kept() -> None:
    unfinished, large = Unfinished(150), assembly(500)
    unfinished.put(FIRST, assembly(100))
    unfinished.put(SECOND, large)
    assert unfinished.take(FIRST) is None
    assert unfinished.take(SECOND) is large


def test_a_newer_assembly_of_the_same_message_replaces_the_older_one() -> None:
    unfinished, newer = Unfinished(1000), assembly(200)
    unfinished.put(FIRST, assembly(100))
    unfinished.put(FIRST, newer)
    assert unfinished.bytes == 200
    assert unfinished.take(FIRST) is newer
