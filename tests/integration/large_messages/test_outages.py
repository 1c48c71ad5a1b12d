"""Messages of 1 KB to 20 MB while sidecar, broker and connections fail: each is read once, whole and in order."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from integration.fragile import Fragile, fragile_front
from integration.large_messages.traffic import RULES, Kind, Reading, Sending, Value, after_position

pytestmark = [pytest.mark.integration, pytest.mark.matrix]

COUNT = 2000
OUTAGES = ("cut", "crash", "broker") * 3


@pytest.fixture(scope="module")
def fragile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fragile]:
    with fragile_front(tmp_path_factory.mktemp("fragile"), RULES) as front:
        yield front


@pytest.mark.parametrize("kind", ["idempotent", "transactional"])
def test_nothing_is_lost_twice_damaged_or_out_of_order(fragile: Fragile, kind: Kind) -> None:
    topic = fragile.topic(f"out-{kind}")
    reading = Reading(fragile.sidecar.bootstrap, topic, COUNT)
    sending = Sending(fragile.sidecar.bootstrap, topic, kind, range(COUNT))
    reading.start()
    step = COUNT // (len(OUTAGES) + 1)
    happened: list[str] = []
    ended = threading.Event()

    def fail() -> None:
        for number, outage in enumerate(OUTAGES, 1):
            while sending.stored < number * step and not ended.wait(0.05):
                pass
            if ended.is_set():
                return
            fragile.happens(outage)()
            happened.append(outage)

    failing = threading.Thread(target=fail)
    failing.start()
    try:
        sending.run()
    finally:
        ended.set()
        failing.join()
    reading.join()

    assert tuple(happened) == OUTAGES
    assert [value.number for value in reading.found] == list(range(COUNT))
    assert after_position(fragile.cluster.direct, topic) == [Value(COUNT - 1).build()]
