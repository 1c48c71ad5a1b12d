"""Fetch in every version; and clients that would show a marker to their application, which get nothing in its place."""

from __future__ import annotations

import time

import pytest
from integration.interception.batches import send
from integration.interception.intercepted import Intercepted
from integration.interception.wire import CONTROL, FetchWire

pytestmark = pytest.mark.integration

VERSIONS = range(4, 19)
LAST_THAT_SHOWS_MARKERS = 10
MAX_WAIT_MS = 200
ROW = [[b"drop", b"drop"]] * 15
KEPT = 2 * len(ROW)  # the offset of the first record after the row
BATCHES = [*ROW, [b"drop", b"keep", b"edit", b"drop"], [b"drop"], *ROW, [b"keep last"], *ROW]
END = sum(map(len, BATCHES))
SHOWN = [(KEPT + 1, b"keep"), (KEPT + 2, b"was edit"), (2 * KEPT + 5, b"keep last")]


@pytest.fixture(scope="module")
def topic(intercepted: Intercepted) -> str:
    name = intercepted.topic("chosen-versions")
    send(intercepted.cluster.direct, name, BATCHES, "lz4")
    return name


@pytest.mark.parametrize("version", VERSIONS)
def test_who_tells_its_name_is_led_over_what_is_hidden_in_every_version(
    intercepted: Intercepted, topic: str, version: int
) -> None:
    offset, shown, answers = 0, list[tuple[int, bytes | None]](), 0
    with FetchWire(intercepted.sidecar.bootstrap) as wire:
        wire.introduce("tests")
        while offset < END:
            fetched = wire.fetch(version, topic, offset, MAX_WAIT_MS, max_bytes=1)
            assert fetched.code == 0
            assert fetched.high_watermark == END
            assert fetched.following is not None
            assert all(count for *_, count in fetched.batches())
            shown += [(at, value) for at, value in fetched.shown() if at >= offset]
            offset, answers = fetched.following, answers + 1
        assert not wire.fetch(version, topic, offset, MAX_WAIT_MS).records
    assert offset == END
    assert shown == SHOWN
    assert answers == len(BATCHES)


@pytest.mark.parametrize("version", [4, 5, LAST_THAT_SHOWS_MARKERS])
def test_who_tells_no_name_gets_no_marker_and_goes_on(intercepted: Intercepted, topic: str, version: int) -> None:
    offset, shown, answers = 0, list[tuple[int, bytes | None]](), 0
    while len(shown) < len(SHOWN):
        with FetchWire(intercepted.sidecar.bootstrap) as wire:  # a new connection each time: progress is kept
            fetched = wire.fetch(version, topic, offset, MAX_WAIT_MS, max_bytes=1)
        assert not any(attributes & CONTROL for _, attributes, *_ in fetched.batches())
        assert fetched.records or fetched.high_watermark == offset
        shown += [(at, value) for at, value in fetched.shown() if at >= offset]
        # Such a client continues after the last record that it got, whatever the batch header says.
        offset, answers = max((at + 1 for at, _ in fetched.shown()), default=offset), answers + 1
        assert answers <= len(BATCHES) + 1
    assert shown == SHOWN


def test_who_waits_at_a_hidden_end_does_not_ask_again_and_again_and_sees_what_comes(intercepted: Intercepted) -> None:
    topic = intercepted.topic("chosen-waiting")
    send(intercepted.cluster.direct, topic, [[b"keep"], *ROW])
    version, answers = LAST_THAT_SHOWS_MARKERS, 0
    with FetchWire(intercepted.sidecar.bootstrap) as wire:
        for _ in range(len(ROW)):
            fetched = wire.fetch(version, topic, 1, MAX_WAIT_MS, max_bytes=1)
            assert (fetched.records, fetched.high_watermark) == (b"", 1)
        until = time.monotonic() + 5 * MAX_WAIT_MS / 1000
        while time.monotonic() < until:
            assert not wire.fetch(version, topic, 1, MAX_WAIT_MS).records
            answers += 1
        assert answers <= 5 + 1
        send(intercepted.cluster.direct, topic, [[b"keep too"]])
        fetched = wire.fetch(version, topic, 1, MAX_WAIT_MS)
    assert fetched.shown() == [(1 + KEPT, b"keep too")]
