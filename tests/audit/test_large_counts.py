"""Large messages in the events: each counted once, in the bucket of its batch, among `count` alone."""

from __future__ import annotations

from typing import Any

import pytest
from support.clock import Clock

from kafka_sidecar.audit.contract import (
    NO_OFFSET,
    NO_TIMESTAMP,
    AuditedClient,
    Auditor,
    LargeMessages,
    RecordCalls,
    Result,
)
from kafka_sidecar.audit.counters import BatchCount
from kafka_sidecar.audit.event_auditor import EventAuditor
from kafka_sidecar.audit.events import Interval

START = 600_000
APP = AuditedClient("app", "User:app", "10.0.0.1")
Counts = tuple[int, int, int]  # count, large_count, segment_count


class Audited:
    """An auditor that is called as the proxy calls it: first with what is large, then with the batch."""

    def __init__(self, **settings: Any) -> None:
        self.auditor = EventAuditor(Clock(START))
        self.auditor.configure(
            {"emitter_id": "pod-1", "enable.auto.tick": False, "auditor.bucket.ms": 1000, **settings}
        )
        self.intervals: list[Interval] = []
        self.auditor.emit = self.intervals.append
        self.auditor.start()

    def produce(
        self,
        *segments: int,
        count: int = 10,
        base: int = 0,
        result: Result = Result.ACKED,
        time: int = START,
        client: AuditedClient = APP,
    ) -> None:
        if segments:
            messages = tuple((NO_OFFSET, one) for one in segments)
            last = base + count - 1 if base != NO_OFFSET else base
            self.auditor.produced_large(LargeMessages(client, None, "t", 0, time, base, last, messages), result)
        self.auditor.produced(client, "t", 0, BatchCount(time, count, 500, result=result, first_offset=base))

    def fetch(self, first: int, last: int, *large: tuple[int, int], group: str | None = "g", time: int = START) -> None:
        if large:
            self.auditor.delivered_large(LargeMessages(APP, group, "t", 0, time, first, last, large))
        self.auditor.delivered(APP, group, "t", 0, BatchCount(time, last - first + 1, 500, first_offset=first))

    def acquire(self, first: int, last: int, *large: tuple[int, int], deliveries: int = 1) -> None:
        self.auditor.acquired_large(LargeMessages(APP, "g", "t", 0, START, first, last, large), deliveries)
        batch = BatchCount(START, last - first + 1, 500, first_offset=first, deliveries=deliveries)
        self.auditor.acquired(APP, "g", "t", 0, batch)

    def counts(self) -> dict[tuple[str, str, int], Counts]:
        """By tier, type and bucket, of the interval that ends now."""
        self.auditor.tick()
        events = self.intervals[-1].counts
        keys = [(event["tier"], event["type"], event["bucket_start"] - START) for event in events]
        assert len(set(keys)) == len(keys)
        return {
            key: (event["count"], event["large_count"], event["segment_count"])
            for key, event in zip(keys, events, strict=True)
        }


@pytest.fixture
def audited() -> Audited:
    return Audited()


def test_an_attempt_has_the_large_messages_of_all_results(audited: Audited) -> None:
    audited.produce(3, 5)
    audited.produce(base=10)
    audited.produce(7, base=NO_OFFSET, result=Result.FAILED)
    audited.produce(0, base=NO_OFFSET, result=Result.REJECTED)
    audited.produce(11, base=NO_OFFSET, result=Result.UNKNOWN)
    audited.produce(13, base=NO_OFFSET, result=Result.UNCONFIRMED)
    assert audited.counts() == {
        ("produce_attempt", "ATTEMPT", 0): (60, 6, 39),
        ("produce_ack", "SUCCESS", 0): (30, 3, 21),
        ("produce_ack", "FAILURE", 0): (20, 2, 7),
    }


def test_a_batch_that_is_acknowledged_again_has_no_large_messages_and_its_attempt_has(audited: Audited) -> None:
    audited.produce(3)
    audited.produce(3)
    audited.produce(4, base=10)
    audited.produce(3)
    assert audited.counts() == {
        ("produce_attempt", "ATTEMPT", 0): (40, 4, 13),
        ("produce_ack", "SUCCESS", 0): (20, 2, 7),
    }


def test_a_batch_at_the_offset_of_one_of_an_earlier_topic_has_its_large_messages(audited: Audited) -> None:
    audited.produce(3)
    audited.produce(4, time=START + 1)
    assert audited.counts()["produce_ack", "SUCCESS", 0] == (20, 2, 7)


def test_large_messages_are_in_the_bucket_of_their_batch(audited: Audited) -> None:
    audited.produce(3)
    audited.produce(4, base=10, time=START + 2500)
    audited.fetch(0, 9, (9, 3))
    audited.fetch(10, 19, (12, 4), time=START + 2500)
    audited.produce(0, base=20, time=NO_TIMESTAMP)
    counts = audited.counts()
    assert counts["produce_ack", "SUCCESS", 0] == (20, 2, 3)
    assert counts["produce_ack", "SUCCESS", 2000] == (10, 1, 4)
    assert counts["fetch_delivered", "SUCCESS", 0] == (10, 1, 3)
    assert counts["fetch_delivered", "SUCCESS", 2000] == (10, 1, 4)


def test_what_a_reader_is_sent_again_is_not_large_again(audited: Audited) -> None:
    audited.fetch(0, 9, (3, 4), (9, 0))
    audited.fetch(0, 9, (3, 4), (9, 0))
    audited.fetch(5, 14, (9, 0), (14, 8))
    audited.fetch(0, 9, (3, 4), (9, 0), group="another")
    by_group = {"g": (15, 3, 12), "another": (10, 2, 4)}
    audited.auditor.tick()
    events = [event for event in audited.intervals[-1].counts if event["tier"] == "fetch_delivered"]
    assert {
        event["group"]: (event["count"], event["large_count"], event["segment_count"]) for event in events
    } == by_group


def test_what_a_share_group_is_given_again_is_not_large_again(audited: Audited) -> None:
    audited.acquire(0, 9, (3, 4), (9, 0))
    audited.acquire(0, 9, (3, 4), (9, 0), deliveries=2)
    audited.acquire(10, 10, (10, 5))
    assert audited.counts() == {("share_delivered", "SUCCESS", 0): (11, 3, 9)}


def test_what_has_no_room_is_lost_and_said_to_be() -> None:
    audited = Audited(max_keys=1)
    for number in range(4):
        audited.produce(3, client=AuditedClient("app", None, None), time=START + 1000 * number)
    counts = audited.counts()
    assert sum(large for _, large, _ in counts.values()) == 2 * 2  # attempts and acknowledgements
    assert audited.intervals[-1].end["lost_events"] == 1


def test_nothing_is_counted_once_the_auditor_is_closed(audited: Audited) -> None:
    audited.auditor.close()
    before = len(audited.intervals)
    audited.produce(3)
    audited.fetch(0, 9, (3, 4))
    assert len(audited.intervals) == before


def test_an_auditor_that_knows_nothing_of_large_messages_gets_its_calls_as_before() -> None:
    calls: list[tuple[Any, ...]] = []

    class Noting(Auditor):
        def record(self, *arguments: Any) -> None:
            calls.append(arguments)

    auditor = RecordCalls(Noting())
    large = LargeMessages(APP, "g", "t", 0, START, 0, 0, ((0, 3),))
    auditor.produced_large(large, Result.ACKED)
    auditor.delivered_large(large)
    auditor.acquired_large(large, 1)
    assert calls == []
