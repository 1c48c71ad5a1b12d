"""Collections of garbage: a full one looks at what is new, and what has become a circle later is found even so."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from kafka_sidecar.proxy.runtime.garbage import FEW, MAX_PAUSE_S, PAUSE_S, Garbage


class Node:
    """An object that may be in a circle."""

    def __init__(self) -> None:
        self.other: Node | None = None


def circle() -> tuple[Node, weakref.ref[Node]]:
    one = Node()
    one.other = Node()
    one.other.other = one
    return one, weakref.ref(one)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def garbage(clock: Clock) -> Iterator[Garbage]:
    found = Garbage(clock)
    with found.little_at_once():
        yield found
    gc.unfreeze()
    gc.collect()
    gc.freeze()  # as tests/conftest.py has it


def collected_at(garbage: Garbage, clock: Clock, now: float, connections: int) -> None:
    clock.now = now
    garbage.look_at_all(connections)


def test_what_has_survived_a_full_collection_is_not_passed_over_by_the_next(garbage: Garbage) -> None:
    kept = [Node() for _ in range(10_000)]
    gc.collect()
    frozen = {id(one) for one in gc.get_objects()}  # `get_objects` has none of those that are frozen
    assert not frozen & {id(one) for one in kept}


def test_frozen_objects_are_freed_with_their_last_reference(garbage: Garbage) -> None:
    one = Node()
    gone = weakref.ref(one)
    gc.collect()
    del one
    assert gone() is None


@pytest.mark.bulk
@pytest.mark.parametrize(("connections", "pause_s"), [(0, PAUSE_S), (FEW, PAUSE_S), (FEW + 1, MAX_PAUSE_S)])
def test_frozen_circles_are_found_once_it_is_time(
    garbage: Garbage, clock: Clock, connections: int, pause_s: float
) -> None:
    one, gone = circle()
    gc.collect()
    del one
    gc.collect()
    assert gone() is not None
    collected_at(garbage, clock, pause_s - 1, connections)
    assert gone() is not None
    collected_at(garbage, clock, pause_s, connections)
    assert gone() is None


def test_nothing_is_looked_at_where_nothing_was_frozen(
    garbage: Garbage, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    gc.collect()
    collected_at(garbage, clock, PAUSE_S, 0)
    looks: list[int] = []
    monkeypatch.setattr(gc, "collect", lambda: looks.append(1))
    collected_at(garbage, clock, 10 * PAUSE_S, 0)
    assert looks == []


def test_collections_are_as_before_afterwards() -> None:
    before = gc.get_threshold(), list(gc.callbacks)
    with Garbage().little_at_once():
        assert gc.get_threshold() != before[0]
    assert (gc.get_threshold(), gc.callbacks) == before
