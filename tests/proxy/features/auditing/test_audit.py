"""The audit of a sidecar: which topics, what arrives in the audit topic, and what a stop keeps."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from pathlib import Path
from typing import Any

import orjson
import pytest
from support.audit import FakeTopic
from support.in_process import config

from kafka_sidecar.audit.contract import AuditedClient, Auditor, BatchAuditor, Result
from kafka_sidecar.audit.counters import BatchCount
from kafka_sidecar.audit.event_auditor import EventAuditor
from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.proxy.features.auditing import audit as module
from kafka_sidecar.proxy.features.auditing.audit import Audit
from kafka_sidecar.proxy.nodes.topic_names import TopicNameCache
from kafka_sidecar.proxy.runtime import sending

CLIENT = AuditedClient("app", None, None)
LIMIT_S = 10.0


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> FakeTopic:
    """The audit topic of every audit that is made."""
    topic = FakeTopic()
    monkeypatch.setattr(module, "writer", lambda config, access: lambda: topic)
    monkeypatch.setattr(module, "MIN_FLUSH_S", 0.01)
    monkeypatch.setattr(sending, "FIRST_RETRY_S", 0.001)
    return topic


async def no_names(ids: Any) -> dict[bytes, str]:
    raise OSError("no broker")


def audit(**settings: Any) -> Audit:
    return Audit(config("a:1", audit={"topic": "audit", "emitter_id": "pod-1", **settings}), TopicNameCache(no_names))


def count(audited: Audit, base_offset: int = 0) -> None:
    batch = BatchCount(1000, 5, 300, result=Result.ACKED, first_offset=base_offset)
    audited.auditor.produced(CLIENT, "t", 0, batch)


def kinds(events: list[dict[str, Any]]) -> list[tuple[str, bool]]:
    return [(event.get("tier", "interval"), event.get("is_closing", False)) for event in events]


OPENING, CLOSING = ("interval", False), ("interval", True)
COUNTS = [("produce_attempt", False), ("produce_ack", False)]


async def test_an_emitter_opens_counts_and_closes(topic: FakeTopic) -> None:
    audited = audit()
    await audited.start_up()
    count(audited)
    await audited.shut_down(LIMIT_S)
    assert kinds(topic.events) == [OPENING, *COUNTS, CLOSING]
    assert {event["emitter_id"] for event in topic.events} == {"pod-1"}


async def test_what_waits_to_be_counted_is_counted_in_time_or_before_the_audit_stops(topic: FakeTopic) -> None:
    audited = audit()
    assert not audited.counting.count_later(lambda: count(audited))
    await audited.start_up()
    is_time = asyncio.Event()
    assert audited.counting.count_later(is_time.set)
    await asyncio.wait_for(is_time.wait(), LIMIT_S)
    assert audited.counting.count_later(lambda: count(audited))
    await audited.shut_down(LIMIT_S)
    assert kinds(topic.events) == [OPENING, *COUNTS, CLOSING]
    assert not audited.counting.count_later(lambda: count(audited))


async def test_topics_are_chosen_by_pattern_and_the_audit_topic_is_never_audited() -> None:
    audited = audit(topics=["orders*", "audit"], exclude_topics=["*-test"])
    assert [name for name in ("orders", "orders-1", "orders-test", "audit", "other") if audited.includes(name)] == [
        "orders",
        "orders-1",
    ]
    assert audit().includes("anything")
    assert not audit().includes("audit")


async def test_without_kafka_a_stop_keeps_all_events_and_the_next_start_sends_them(
    topic: FakeTopic, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    spooled = tmp_path / "audit.spool"
    topic.error = OSError("no broker")
    caplog.set_level(logging.INFO)
    first = audit(spool_file=str(spooled))
    await first.start_up()
    count(first)
    await first.shut_down(0.05)
    assert kinds([orjson.loads(line) for line in spooled.read_bytes().splitlines()]) == [OPENING, *COUNTS, CLOSING]

    os.utime(spooled, (time.time() - 3600, time.time() - 3600))
    second = audit(spool_file=str(spooled))  # again without Kafka
    assert (second.state()["spooled_events"], second.state()["oldest_seconds"]) == (0, 0.0)
    await second.start_up()
    state = second.state()
    assert (state["spooled_events"], state["spooled_bytes"]) == (4, spooled.stat().st_size)
    assert state["oldest_seconds"] >= 3600
    await second.shut_down(0.05)
    topic.error = None
    third = audit(spool_file=str(spooled))
    await third.start_up()
    await third.shut_down(LIMIT_S)
    assert [third.state()[name] for name in ("spooled_events", "spooled_bytes", "oldest_seconds")] == [0, 0, 0.0]
    assert kinds(topic.events) == [OPENING, *COUNTS, CLOSING, OPENING, CLOSING, OPENING, CLOSING]
    assert not spooled.exists()
    messages = [(record.getMessage(), record.__dict__.get("events")) for record in caplog.records]
    assert messages[1:3] == [("audit events spooled", 4), ("audit spool read", 4)]
    assert messages[-2:] == [("audit events spooled", 6), ("audit spool read", 6)]


async def test_without_a_spool_the_loss_is_logged(topic: FakeTopic, caplog: pytest.LogCaptureFixture) -> None:
    topic.error = OSError("no broker")
    audited = audit()
    await audited.start_up()
    await audited.shut_down(0.05)
    assert (caplog.records[-1].getMessage(), caplog.records[-1].__dict__["events"]) == ("audit events lost", 2)


async def test_an_auditor_that_emits_no_events_needs_no_topic() -> None:
    class Ledger(BatchAuditor):
        closed_within: float | None = None
        counted = 0

        def produced(self, *batch: Any) -> None:
            self.counted += 1

        def close(self, timeout: float | None = None) -> None:
            self.closed_within = timeout

    ledger = Ledger()
    audited = Audit(config("a:1", audit={"auditor_class": "acme:Ledger"}), TopicNameCache(no_names), ledger)
    await audited.start_up()
    count(audited)
    await audited.shut_down(LIMIT_S)
    assert (ledger.counted, ledger.closed_within, audited.sender) == (1, LIMIT_S, None)


async def test_events_after_the_loop_has_ended_are_no_error(topic: FakeTopic) -> None:
    audited = audit()
    await audited.start_up()
    await audited.shut_down(LIMIT_S)

    class Ended:
        def call_soon_threadsafe(self, call: Any) -> None:
            raise RuntimeError("Event loop is closed")

    audited._loop = Ended()  # type: ignore[assignment]
    assert isinstance(audited._opened, EventAuditor)
    audited._opened.tick()
    assert audited.outbox.events == 1


async def test_an_auditor_that_fails_at_start_and_close_does_not_stop_the_sidecar() -> None:
    class Failing(Auditor):
        def start(self) -> None:
            raise RuntimeError("no disk")

        def close(self, timeout: float | None = None) -> None:
            raise RuntimeError("no disk")

    audited = Audit(config("a:1", audit={"auditor_class": "acme:Failing"}), TopicNameCache(no_names), Failing())
    await audited.start_up()
    await audited.shut_down(LIMIT_S)
    assert audited.counting.stats.uncounted == {("(start or close)", "auditor_failed"): 2}


async def test_the_name_of_a_topic_id_is_requested_once_and_the_result_is_reported() -> None:
    requested: list[bytes] = []

    async def names(ids: Any) -> dict[bytes, str]:
        requested.extend(ids)
        return {bytes(16): "orders"} if len(requested) == 1 else await no_names(ids)

    audited = Audit(config("a:1", audit={"topic": "audit"}), TopicNameCache(names))
    for topic_id in (b"\1" * 16, b"\2" * 16):
        done = asyncio.Event()
        audited._request_name(topic_id, done.set)
        await done.wait()
    assert requested == [b"\1" * 16, b"\2" * 16]


def test_requests_are_watched_by_api() -> None:
    assert audit().tap(ApiKey.PRODUCE, 9) is not None
    assert audit().tap(ApiKey.LIST_GROUPS, 0) is None
