"""The sender: events arrive in order and none is lost, whatever fails on the way."""

from __future__ import annotations

import logging
import threading
from importlib import import_module
from pathlib import Path

import pytest
from support.audit import FakeTopic

from kafka_sidecar.audit.events import Interval
from kafka_sidecar.audit.outbox import Outbox
from kafka_sidecar.proxy.features.auditing.sender import Sender, Spool
from kafka_sidecar.proxy.runtime import sending

LIMIT_S = 10.0


@pytest.fixture(autouse=True)
def _retry_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "FIRST_RETRY_S", 0.0)
    monkeypatch.setattr(sending, "MAX_RETRY_S", 0.0)


class Site:
    def __init__(self) -> None:
        self.topic = FakeTopic()
        self.outbox = Outbox(1 << 30, 1 << 30)
        self.sender = Sender(self.outbox, lambda: self.topic)

    def add(self, number: int, counts: int, size: int = 0) -> None:
        events = [{"audit_id": f"{number}-{index}", "p": "x" * size} for index in range(counts)]
        self.outbox.add(Interval(list(events), {"audit_id": f"{number}-end", "lost_events": 0}))
        self.sender.wake()

    def ids(self) -> list[str]:
        return [event["audit_id"] for event in self.topic.events]


async def test_events_are_sent_in_order() -> None:
    site = Site()
    site.add(0, 2)
    site.sender.start()
    site.add(1, 1)
    assert await site.sender.finish(LIMIT_S) == []
    assert site.ids() == ["0-0", "0-1", "0-end", "1-0", "1-end"]
    assert (site.sender.sent, site.sender.failures, site.sender.in_flight) == (5, 0, 0)
    assert site.topic.stopped


async def test_events_wait_while_the_topic_fails(caplog: pytest.LogCaptureFixture) -> None:
    site = Site()
    site.topic.error = OSError("no leader")
    site.sender.start()
    with caplog.at_level(logging.INFO):
        site.add(0, 1)
        for _ in range(3):
            site.topic.attempted.clear()
            await site.topic.attempted.wait()
        assert (site.sender.sent, site.sender.in_flight) == (0, 2)
        site.topic.error = None
        assert await site.sender.finish(LIMIT_S) == []
    assert site.ids() == ["0-0", "0-end"]
    assert site.sender.failures >= 3
    assert [record.getMessage() for record in caplog.records] == [
        "audit events not sent, they are buffered",
        "audit events are sent again",
    ]


async def test_what_was_not_written_is_written_again_and_nothing_twice() -> None:
    site = Site()
    site.topic.takes = 2
    site.sender.start()
    site.add(0, 6)
    assert await site.sender.finish(LIMIT_S) == []
    assert site.ids() == [*(f"0-{index}" for index in range(6)), "0-end"]
    assert (site.sender.sent, site.sender.failures) == (7, 3)


async def test_an_event_that_is_too_large_does_not_stop_the_others() -> None:
    site = Site()
    site.topic.max_bytes = 500
    site.add(0, 1, size=1000)
    site.add(1, 1)
    site.sender.start()
    assert await site.sender.finish(LIMIT_S) == []
    assert site.ids() == ["0-end", "1-0", "1-end"]
    assert (site.sender.sent, site.sender.too_large) == (3, 1)


async def test_what_cannot_be_sent_in_time_is_returned() -> None:
    site = Site()
    site.topic.error = OSError("no leader")
    site.sender.start()
    site.add(0, 600)
    await site.topic.attempted.wait()
    unsent = await site.sender.finish(0.01)
    assert [event.key.decode() for event in unsent] == [*(f"0-{index}" for index in range(600)), "0-end"]


async def test_a_sender_without_events_makes_no_writer() -> None:
    site = Site()
    emptied: list[int] = []
    site.sender.on_empty = lambda: emptied.append(1)
    site.sender.start()
    assert await site.sender.finish(LIMIT_S) == []
    assert not site.topic.stopped
    assert emptied
    assert site.sender.too_large == 0


async def test_the_library_of_the_writer_is_imported_before_and_not_by_the_thread_of_the_event_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    imported: list[tuple[str, threading.Thread]] = []

    def remember(name: str) -> object:
        imported.append((name, threading.current_thread()))
        return import_module(name)

    monkeypatch.setattr(sending, "import_module", remember)
    site = Site()
    before: list[int] = []

    def make() -> FakeTopic:
        before.append(len(imported))
        return site.topic

    site.sender = Sender(site.outbox, make)
    site.sender.start()
    site.add(0, 0)
    assert await site.sender.finish(LIMIT_S) == []
    assert before == [1]
    ((name, thread),) = imported
    assert name == "kafka_sidecar.proxy.features.auditing.kafka_topic"
    assert thread is not threading.current_thread()


async def test_a_bug_of_the_writer_is_logged_and_the_events_stay(caplog: pytest.LogCaptureFixture) -> None:
    site = Site()
    site.topic.error = KeyError("bug")
    site.sender.start()
    site.add(0, 0)
    await site.topic.attempted.wait()
    site.topic.error = None
    assert await site.sender.finish(LIMIT_S) == []
    assert site.ids() == ["0-end"]
    assert caplog.records[0].getMessage() == "audit sender crashed: this is a bug"


def test_events_are_read_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "events"
    spool = Spool(path)
    assert spool.load() == []
    assert spool.save([b'{"a":1}', b"{}"])
    assert spool.save([b'{"a":2}', b'{"b":"\xc3\xa9"}'])
    assert spool.load() == [b'{"a":2}', b'{"b":"\xc3\xa9"}']
    assert list(tmp_path.iterdir()) == [path]
    spool.remove()
    spool.remove()
    assert spool.load() == []


def test_a_path_that_cannot_be_used_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    spool = Spool(tmp_path)
    assert spool.load() == []
    spool.remove()
    assert not Spool(tmp_path / "missing" / "events").save([b"{}"])
    assert [record.getMessage() for record in caplog.records] == [
        "audit spool unreadable",
        "audit spool not removed",
        "audit spool not written",
    ]
