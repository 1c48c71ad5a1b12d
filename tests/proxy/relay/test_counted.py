"""How much an edit makes a response longer, and how long it holds it."""

from __future__ import annotations

import pytest

from kafka_sidecar.proxy.relay.counted import Counted
from kafka_sidecar.proxy.relay.frames import Collected, Swallowed
from kafka_sidecar.proxy.relay.routes import Route
from kafka_sidecar.proxy.telemetry.metrics import ApiCounts


class Clock:
    now = 10.0

    def __call__(self) -> float:
        return self.now


def route() -> Route:
    return Route(3, 12, ApiCounts("Metadata"))


@pytest.mark.parametrize(("new", "grows"), [(b"longer than before", 12), (b"short", -1), (b"before", 0)])
def test_by_how_much_a_frame_grows_is_counted_once_it_is_whole(new: bytes, grows: int) -> None:
    row = route()
    edit = Counted(Collected(lambda frame: new), row, Clock())
    assert edit.feed(b"xxbef", 2, 5, last=False) == b""
    assert edit.feed(b"ore", 0, 3, last=True) == new
    assert (row.counts.rewritten_bytes, row.counts.buffered) == (grows, 1)


def test_a_frame_that_passes_as_it_is_does_not_grow() -> None:
    row = route()
    data = b"as it is"
    assert Counted(Collected(lambda frame: frame), row, Clock()).feed(data, 0, len(data), last=True) is None
    assert (row.counts.rewritten_bytes, row.counts.buffered) == (0, 1)


def test_what_is_swallowed_makes_it_shorter() -> None:
    row = route()
    Counted(Swallowed(), row, Clock()).feed(b"gone", 0, 4, last=True)
    assert row.counts.rewritten_bytes == -4


def test_a_frame_is_held_from_its_first_bytes_to_its_last() -> None:
    row, clock = route(), Clock()
    edit = Counted(Collected(lambda frame: frame), row, clock)
    clock.now += 0.25
    edit.feed(b"a", 0, 1, last=False)
    assert row.counts.buffered == 0
    clock.now += 0.25
    edit.feed(b"b", 0, 1, last=True)
    assert (row.counts.buffered, row.counts.buffered_us) == (1, 500_000)
