"""The default auditor: what batches become which events, and that every event is as the schema says."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.clock import Clock

from kafka_sidecar.audit import event_auditor, tally
from kafka_sidecar.audit.contract import NO_OFFSET, NO_TIMESTAMP, AuditedClient, AuditType, Result, TopicName
from kafka_sidecar.audit.counters import BatchCount
from kafka_sidecar.audit.event_auditor import EventAuditor
from kafka_sidecar.audit.events import Event, Interval

SCHEMA = json.loads((Path(event_auditor.__file__).parent / "event.schema.json").read_text())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA, format_checker=jsonschema.FormatChecker())
MINUTE = 60_000
START = 10 * MINUTE
APP = AuditedClient("app", "User:app", "10.0.0.1")
OTHER_HOST = AuditedClient("app", "User:app", "10.0.0.2")


WHERE = ("client", "group", "topic", "partition", "offset")


class Audited:
    """An auditor whose intervals end when the test says so, and its events."""

    def __init__(self, **settings: Any) -> None:
        self.clock = Clock(START)
        self.auditor = EventAuditor(self.clock)
        self.auditor.configure(
            {"emitter_id": "pod-1", "enable.auto.tick": False, "auditor.bucket.ms": 1000, **settings}
        )
        self.intervals: list[Interval] = []
        self.auditor.emit = self.intervals.append
        self.auditor.start()

    def produce(self, base_offset: int = 0, result: Result = Result.ACKED, **other: Any) -> None:
        given = {"client": APP, "topic": "t", "partition": 0, "timestamp": START, "count": 10, "size": 500,
                 "result": result, "first_offset": base_offset, "latency_s": 0.0005, **other}  # fmt: skip
        self.call("produced", given)

    def fetch(self, first: int, last: int, **other: Any) -> None:
        given = {"client": APP, "group": "g", "topic": "t", "partition": 0, "timestamp": START,
                 "count": last - first + 1, "size": 500, "first_offset": first, "last_offset": last,
                 "latency_s": 0.0005, **other}  # fmt: skip
        self.call("delivered", given)

    def acquire(self, first: int, last: int, **other: Any) -> None:
        given = {"client": APP, "group": "workers", "topic": "t", "partition": 0, "timestamp": START,
                 "count": last - first + 1, "size": 500, "first_offset": first, "last_offset": last,
                 "latency_s": 0.0005, "deliveries": 1, **other}  # fmt: skip
        self.call("acquired", given)

    def call(self, method: str, given: dict[str, Any]) -> None:
        """Call the auditor with the batch that is given by its parts."""
        where = {name: value for name, value in given.items() if name in WHERE}
        parts = {name: value for name, value in given.items() if name not in WHERE}
        getattr(self.auditor, method)(**where, **({"batch": BatchCount(**parts)} if parts else {}))

    def events(self) -> list[Event]:
        """Of the interval that ends now."""
        self.auditor.tick()
        return self.intervals[-1].counts

    def of(self, tier: str, type_: str = "SUCCESS") -> Event:
        (event,) = [event for event in self.events() if (event["tier"], event["type"]) == (tier, type_)]
        return event


@pytest.fixture
def audited() -> Audited:
    return Audited()


def part(event: Event, **expected: Any) -> bool:
    return {name: event[name] for name in expected} == expected


def test_an_acknowledged_batch_is_an_attempt_and_a_success(audited: Audited) -> None:
    audited.produce(base_offset=70)
    audited.produce(base_offset=80, timestamp=START + 999)
    attempt, success = audited.events()
    same = {"topic": "t", "partition": 0, "client_id": "app", "principal": "User:app", "group": None, "count": 20,
            "bytes": 1000, "bucket_start": START, "min_ts": START, "max_ts": START + 999}  # fmt: skip
    assert part(attempt, tier="produce_attempt", type="ATTEMPT", ranges=[], first_offset=None, latency=None, **same)
    assert part(success, tier="produce_ack", type="SUCCESS", first_offset=70, last_offset=89, **same)
    assert part(success, ranges=[(70, 89)], ranges_exact=True, latency={"base": 1.1, "i": [0], "c": [20]})


@pytest.mark.parametrize(("result", "rejected"), [(Result.REJECTED, 10), (Result.FAILED, 0)])
def test_a_rejected_batch_is_a_failure(audited: Audited, result: Result, rejected: int) -> None:
    audited.produce(NO_OFFSET, result)
    failure = audited.of("produce_ack", "FAILURE")
    assert part(failure, count=10, reject_count=rejected, first_offset=None, ranges=[], latency=None)


def test_a_batch_without_a_response_is_an_attempt_alone(audited: Audited) -> None:
    audited.produce(NO_OFFSET, Result.UNKNOWN)
    (attempt,) = audited.events()
    assert part(attempt, tier="produce_attempt", count=10)


def test_a_batch_without_acks_is_an_unconfirmed_success(audited: Audited) -> None:
    audited.produce(NO_OFFSET, Result.UNCONFIRMED)
    success = audited.of("produce_ack")
    assert part(success, count=10, unconfirmed_count=10, first_offset=None)


def test_a_batch_that_is_acknowledged_again_counts_once(audited: Audited) -> None:
    audited.produce(base_offset=70)
    assert part(audited.of("produce_ack"), count=10, redelivered_count=0)
    audited.produce(base_offset=70)
    audited.produce(base_offset=80)
    attempt, success = audited.events()
    assert part(attempt, count=20)
    assert part(success, count=10, redelivered_count=10, ranges=[(70, 89)])


def test_a_batch_of_a_topic_that_was_created_again_is_no_repetition(audited: Audited) -> None:
    audited.produce(base_offset=0)
    audited.produce(base_offset=0, timestamp=START + 5)
    assert part(audited.of("produce_ack"), count=20, redelivered_count=0)


def test_buckets_are_those_of_event_time_and_before_1970_too(audited: Audited) -> None:
    audited.produce(timestamp=-1500)
    audited.produce(base_offset=10, timestamp=2500)
    starts = [event["bucket_start"] for event in audited.events() if event["tier"] == "produce_ack"]
    assert starts == [-2000, 2000]


def test_a_batch_without_a_timestamp_has_the_time_of_arrival(audited: Audited) -> None:
    audited.clock.now += 2500
    audited.produce(timestamp=NO_TIMESTAMP)
    audited.fetch(0, 9, timestamp=NO_TIMESTAMP)
    for event in audited.events():
        assert part(event, bucket_start=START + 2000, no_timestamp_count=10, min_ts=START + 2500)
        assert event["tier"] != "fetch_delivered" or event["latency"] is None


def test_records_that_a_reader_was_sent_before_are_counted_apart(audited: Audited) -> None:
    audited.fetch(0, 9)
    audited.fetch(10, 19)
    assert part(audited.of("fetch_delivered"), count=20, redelivered_count=0, ranges=[(0, 19)])
    audited.fetch(10, 19, client=OTHER_HOST)  # of the same group
    audited.fetch(15, 24)
    assert part(audited.of("fetch_delivered"), count=5, redelivered_count=15, ranges=[(10, 24)])


def test_readers_without_a_group_differ_by_client_and_host(audited: Audited) -> None:
    audited.fetch(0, 9, group=None)
    audited.fetch(0, 9, group=None, client=OTHER_HOST)
    audited.fetch(0, 9, group=None)
    assert part(audited.of("fetch_delivered"), count=20, redelivered_count=10, group=None)


def test_hidden_and_aborted_records_are_counted_apart_and_once(audited: Audited) -> None:
    audited.fetch(0, 9, count=5, hidden=3, aborted=2)
    audited.fetch(0, 9, count=5, hidden=3, aborted=2)
    event = audited.of("fetch_delivered")
    assert part(event, count=5, hidden_count=3, aborted_count=2, redelivered_count=5, ranges=[(0, 9)])


def test_a_group_advances_from_its_first_commit_on(audited: Audited) -> None:
    audited.clock.now += 1234
    for offset in (100, 100, 130, 120, 125):
        audited.auditor.committed(APP, "g", "t", 0, offset)
    event = audited.of("commit")
    assert part(event, count=35, first_offset=100, last_offset=129, group="g", bucket_start=START + 1000, bytes=0)


def test_li_s_record_counts_nothing(audited: Audited) -> None:
    audited.auditor.record(None, "t", START, 1, 1, AuditType.SUCCESS)
    assert audited.events() == []


def test_the_intervals_have_no_gaps_and_the_last_one_is_closing(audited: Audited) -> None:
    audited.clock.now += 100
    audited.produce()
    audited.auditor.tick()
    audited.clock.now += 50
    audited.produce(base_offset=10)
    audited.auditor.close()
    audited.auditor.close()
    audited.produce(base_offset=20)
    audited.auditor.start()
    ends = [interval.end for interval in audited.intervals]
    assert [(end["interval_seq"], end["interval_start"] - START, end["interval_end"] - START) for end in ends] == [
        (0, 0, 0),
        (1, 0, 100),
        (2, 100, 150),
    ]
    assert [(end["is_closing"], end["interval_events"]) for end in ends] == [(False, 0), (False, 2), (True, 2)]
    assert {end["emitter_epoch"] for end in ends} == {START}
    assert [[event["event_index"] for event in interval.counts] for interval in audited.intervals] == [
        [],
        [0, 1],
        [0, 1],
    ]
    assert all(event["interval_seq"] == 2 for event in audited.intervals[2].counts)


def test_an_interval_that_ends_by_the_clock_ends_at_its_multiple() -> None:
    audited = Audited(**{"enable.auto.tick": True, "auditor.reporting.interval.ms": 4 * MINUTE})
    audited.clock.now = START + 5 * MINUTE
    audited.produce(timestamp=START + 3 * MINUTE)  # the next interval
    audited.auditor.tick()
    assert part(audited.intervals[1].end, interval_start=START, interval_end=12 * MINUTE, interval_events=0)
    audited.auditor.close(10.0)
    assert part(audited.intervals[2].end, interval_start=12 * MINUTE, interval_events=2, is_closing=True)


@pytest.mark.bulk
def test_batches_that_threads_count_while_intervals_end_are_each_in_one_of_them(audited: Audited) -> None:
    batches, threads = 10_000, 2
    ended = threading.Event()

    def tick() -> None:
        while not ended.is_set():
            audited.auditor.tick()

    def count(index: int) -> None:
        counter = audited.auditor.produce_counter(APP, "t", index)
        for number in range(batches):
            batch = BatchCount(START + number % 3 * 1000, 2, 10, result=Result.ACKED, first_offset=2 * number)
            with audited.auditor.counting:
                counter.count(batch)

    counting = [threading.Thread(target=count, args=(index,)) for index in range(threads)]
    ticking = threading.Thread(target=tick)
    for thread in (*counting, ticking):
        thread.start()
    for thread in counting:
        thread.join()
    ended.set()
    ticking.join()
    audited.auditor.close()
    events = [event for one in audited.intervals for event in one.counts if event["tier"] == "produce_ack"]
    assert sum(event["count"] for event in events) == 2 * batches * threads
    assert sum(event["bytes"] for event in events) == 10 * batches * threads
    offsets = sum(last - first + 1 for event in events for first, last in event["ranges"])
    assert (offsets, len(audited.intervals) > 2) == (2 * batches * threads, True)


def test_an_interval_does_not_end_while_batches_are_counted(audited: Audited) -> None:
    counter = audited.auditor.fetch_counter(APP, "g", "t", 0)
    ticking = threading.Thread(target=audited.auditor.tick)
    with audited.auditor.counting:
        ticking.start()
        counter.count(BatchCount(START, 10, 500, first_offset=0))
        ticking.join(0.05)
        assert ticking.is_alive()
        counter.count(BatchCount(START, 10, 500, first_offset=10))
    ticking.join()
    counter.count(BatchCount(START, 10, 500, first_offset=20))
    (event,) = audited.intervals[-1].counts
    assert part(event, count=20, ranges=[(0, 19)])
    assert part(audited.of("fetch_delivered"), count=10, ranges=[(20, 29)])


def test_a_batch_after_the_end_of_its_bucket_or_interval_is_counted_in_the_next() -> None:
    audited = Audited(**{"enable.auto.tick": True, "auditor.reporting.interval.ms": 1500})
    counter = audited.auditor.produce_counter(APP, "t", 0)
    begin = START + 1500  # of the next interval, in the middle of a bucket
    for number, time in enumerate((START, START + 1499, begin, begin + 499, START + 1000, begin + 500)):
        counter.count(BatchCount(time, 1, 10, result=Result.ACKED, first_offset=number))
    audited.auditor.tick()
    audited.auditor.close()
    found = [
        [(event["bucket_start"] - START, event["count"]) for event in one.counts if event["tier"] == "produce_ack"]
        for one in audited.intervals[1:]
    ]
    assert found == [[(0, 1), (1000, 2)], [(1000, 2), (2000, 1)]]


def test_a_clock_that_is_set_back_makes_no_interval_end_before_it_began(audited: Audited) -> None:
    audited.clock.now -= 500
    audited.auditor.tick()
    assert part(audited.intervals[1].end, interval_start=START, interval_end=START)


def test_clients_above_the_maximum_of_keys_are_counted_as_other() -> None:
    audited = Audited(max_keys=2)
    for number in range(4):
        audited.produce(10 * number, client=AuditedClient(f"client-{number}", None, None))
    clients = {event["client_id"]: event["count"] for event in audited.events() if event["tier"] == "produce_ack"}
    assert clients == {"client-0": 10, "client-1": 10, "(other)": 20}


def test_what_is_far_above_the_maximum_is_lost_and_the_interval_says_so() -> None:
    audited = Audited(max_keys=1)
    for number in range(5):
        audited.produce(10 * number, timestamp=START + 1000 * number)
        audited.fetch(10 * number, 10 * number + 9, timestamp=START + 1000 * number)
        audited.auditor.committed(APP, "g", "t", number, 1)
        audited.auditor.committed(APP, "g", "t", number, 2)
    audited.auditor.tick()
    interval = audited.intervals[-1]
    assert len(interval.counts) == 3  # one key, its attempt and the first of (other)
    assert part(interval.end, lost_events=1, lost_min_ts=START, lost_max_ts=START + 4000, interval_events=4)


def test_offsets_above_the_maximum_of_ranges_are_joined(monkeypatch: pytest.MonkeyPatch, audited: Audited) -> None:
    monkeypatch.setattr(tally, "MAX_RANGES", 2)
    for number in range(3):
        audited.produce(100 * number)
    assert part(audited.of("produce_ack"), ranges=[(0, 9), (100, 209)], ranges_exact=False, count=30)


def test_an_auditor_without_a_receiver_drops_its_events() -> None:
    auditor = EventAuditor(Clock())
    auditor.configure({})
    auditor.start()
    auditor.close(10.0)


TIMES = st.integers(NO_TIMESTAMP, 1 << 53)
COUNTS = st.integers(1, 1 << 31)
OFFSETS = st.integers(0, 1 << 53)
TEXTS = st.none() | st.text()
CLIENTS = st.builds(AuditedClient, TEXTS, TEXTS, TEXTS)
PLACES = {"topic": st.text("abc-._", min_size=1), "partition": st.integers(0, 1 << 31)}
LATENCIES = st.floats(-1e6, 1e9)


@st.composite
def deliveries(draw: Callable[[Any], Any]) -> dict[str, Any]:
    first, count, hidden, aborted = (draw(one) for one in (OFFSETS, COUNTS, COUNTS, COUNTS))
    return {"first_offset": first, "last_offset": first + count + hidden + aborted - 1, "count": count,
            "hidden": hidden, "aborted": aborted}  # fmt: skip


CALLS = st.one_of(
    st.tuples(st.just("produced"), st.fixed_dictionaries({
        "client": CLIENTS, **PLACES, "timestamp": TIMES, "count": COUNTS, "size": COUNTS,
        "result": st.sampled_from(Result), "first_offset": st.just(NO_OFFSET) | OFFSETS, "latency_s": LATENCIES,
    })),
    st.tuples(st.just("delivered"), st.builds(lambda one, more: one | more, st.fixed_dictionaries({
        "client": CLIENTS, "group": TEXTS, **PLACES, "timestamp": TIMES, "size": COUNTS, "latency_s": LATENCIES,
    }), deliveries())),
    st.tuples(st.just("committed"), st.fixed_dictionaries({
        "client": CLIENTS, "group": st.text(), **PLACES, "offset": OFFSETS})),
)  # fmt: skip


def problems(intervals: list[Interval]) -> Iterator[str]:
    """What is not as the schema says, of the events as they are sent."""
    for interval in intervals:
        for event in (*interval.counts, interval.end):
            sent = json.loads(orjson.dumps(event))
            yield from (error.message for error in VALIDATOR.iter_errors(sent))


@given(st.lists(CALLS, max_size=20), st.integers(1, 1 << 40), st.integers(1, 5), TEXTS)
def test_every_event_is_as_the_schema_says(
    calls: list[tuple[str, dict[str, Any]]], bucket_ms: int, max_keys: int, label: str | None
) -> None:
    audited = Audited(**{"auditor.bucket.ms": bucket_ms, "max_keys": max_keys, "cluster": label, "dc": label})
    for number, (method, arguments) in enumerate(calls):
        audited.call(method, arguments)
        if number % 7 == 6:
            audited.auditor.tick()
    audited.auditor.close()
    assert list(problems(audited.intervals)) == []
    for interval in audited.intervals:
        assert interval.end["interval_events"] == len(interval.counts) + interval.end["lost_events"]


def test_the_schema_rejects_an_event_with_another_field(audited: Audited) -> None:
    audited.produce()
    audited.auditor.tick()
    audited.intervals[1].counts[0]["surprise"] = 1
    assert list(problems(audited.intervals)) != []


def test_what_a_share_group_acquires_is_counted_and_what_was_given_out_before_apart(audited: Audited) -> None:
    audited.acquire(0, 9)
    audited.acquire(20, 29, client=OTHER_HOST, count=8, hidden=2)
    audited.acquire(5, 9, deliveries=2, timestamp=START + 1)
    event = audited.of("share_delivered")
    assert part(event, group="workers", count=18, redelivered_count=5, hidden_count=2, ranges=[(0, 9), (20, 29)])
    assert part(event, latency={"base": 1.1, "i": [0], "c": [18]}, no_timestamp_count=0, bytes=1500)
    audited.acquire(40, 40, timestamp=NO_TIMESTAMP)
    assert part(audited.of("share_delivered"), count=1, no_timestamp_count=1, latency=None)


def test_what_a_share_group_accepts_is_a_commit_of_these_offsets(audited: Audited) -> None:
    audited.auditor.accepted(APP, "workers", "t", 0, 5, 9)
    audited.auditor.accepted(APP, "workers", "t", 0, 20, 20)
    assert part(audited.of("commit"), group="workers", count=6, ranges=[(5, 9), (20, 20)], no_timestamp_count=6)


def test_later_copies_of_what_was_sent_again_are_named_by_offset(audited: Audited) -> None:
    def copied(base: int, is_certain: bool, timestamp: int = START) -> None:
        batch = BatchCount(timestamp, 10, 500, result=Result.ACKED, first_offset=base)
        audited.auditor.duplicated(APP, "t", 0, batch, is_certain)

    for base in (70, 80, 90):
        audited.produce(base_offset=base)
    copied(80, True)
    copied(90, False)
    success = audited.of("produce_ack")
    assert part(success, count=30, ranges=[(70, 99)], duplicate_ranges=[(80, 89)], resent_ranges=[(90, 99)])
    copied(100, True, NO_TIMESTAMP)  # what it was produced with is in an earlier interval
    later = audited.of("produce_ack")
    assert part(later, count=0, ranges=[], duplicate_ranges=[(100, 109)])
    assert "resent_ranges" not in later
    audited.produce(base_offset=200)
    assert not {"duplicate_ranges", "resent_ranges"} & audited.of("produce_ack").keys()


def test_a_commit_of_the_same_offset_is_no_advance(audited: Audited) -> None:
    for offset in (5, 5, 3):
        audited.auditor.committed(APP, "g", "t", 0, offset)
    assert not audited.events()


def test_a_topic_that_is_created_again_has_events_of_its_own(audited: Audited) -> None:
    lives = TopicName("t", b"\0" * 16), TopicName("t", b"\xff" * 16)
    for topic in lives:
        audited.produce(base_offset=0, topic=topic)
        audited.produce(base_offset=0, topic=topic)
        audited.fetch(0, 9, topic=topic)
        audited.auditor.committed(APP, "g", topic, 0, 3)
        audited.auditor.committed(APP, "g", topic, 0, 5)
    events = audited.events()
    found = [(event["topic"], event.get("topic_id"), event["count"]) for event in events]
    ids = "AAAAAAAAAAAAAAAAAAAAAA", "_____________________w"
    for tier in ("produce_ack", "fetch_delivered", "commit"):
        of_tier = [one for one, event in zip(found, events, strict=True) if event["tier"] == tier]
        assert of_tier == [("t", topic_id, 2 if tier == "commit" else 10) for topic_id in ids]
