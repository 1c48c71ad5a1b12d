"""li's own tests of its AbstractAuditor and CountingAuditStats, and what is ours: settings per instance, the end."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
from support.clock import Clock

from kafka_sidecar.audit.abstract import AbstractAuditor
from kafka_sidecar.audit.contract import AuditType
from kafka_sidecar.audit.counting import AuditingCounts, AuditKey, CountingAuditStats

INTERVAL, DELAY = 60_000, 6_000
SETTINGS = {"auditor.reporting.interval.ms": INTERVAL, "auditor.reporting.delay.ms": DELAY}
WAIT_S = 10.0
TYPES = (AuditType.ATTEMPT, AuditType.SUCCESS, AuditType.FAILURE)


class Ticking(AbstractAuditor):
    """Records what it has to report."""

    def __init__(self, clock: Any = None) -> None:
        super().__init__(clock or Clock())
        self.ticked: list[CountingAuditStats] = []
        self.closed: list[CountingAuditStats] = []
        self.remaining_s: float | None = -1.0
        self.reported = threading.Event()

    def create_audit_stats(self) -> CountingAuditStats:
        return CountingAuditStats(self.settings.bucket_ms)

    def get_audit_key(
        self, token: Any, topic: str, timestamp: int | None, messages: int, size: int, type_: AuditType
    ) -> AuditKey | None:
        bucket = None if timestamp is None else timestamp // self.settings.bucket_ms
        return AuditKey(topic, bucket, type_) if topic else None

    def on_tick(self, last_stats: CountingAuditStats) -> None:
        self.ticked.append(last_stats)
        self.reported.set()

    def on_closed(self, current: CountingAuditStats, following: CountingAuditStats, remaining_s: float | None) -> None:
        self.closed, self.remaining_s = [current, following], remaining_s


@pytest.fixture
def auditor() -> Iterator[Ticking]:
    auditor = Ticking()
    auditor.configure({**SETTINGS, "enable.auto.tick": False})
    auditor.start()
    yield auditor
    auditor.close()


def count(auditor: AbstractAuditor, timestamp: int | None, topic: str = "t", messages: int = 1) -> None:
    auditor.record(None, topic, timestamp, messages, 10, AuditType.SUCCESS)


def messages(stats: CountingAuditStats) -> int:
    return sum(counts.messages for counts in stats.counts.values())


def test_records_before_the_next_tick_are_in_the_current_interval_and_later_ones_in_the_next() -> None:
    clock = Clock()
    auditor = Ticking(clock)
    auditor.configure(SETTINGS)
    auditor.intervals = auditor.intervals._replace(
        current=auditor.create_audit_stats(), next=auditor.create_audit_stats(), next_tick=INTERVAL
    )
    for timestamp in (0, 30_000, INTERVAL - 1):
        count(auditor, timestamp)
    for late_or_none in (INTERVAL, 2 * INTERVAL, None):
        count(auditor, late_or_none)
    assert (messages(auditor.intervals.current), messages(auditor.intervals.next)) == (3, 3)

    clock.now = INTERVAL + DELAY - 1
    assert not auditor._is_due()
    clock.now += 1
    assert auditor._is_due()
    auditor.tick()
    assert [messages(stats) for stats in auditor.ticked] == [3]
    assert (messages(auditor.intervals.current), messages(auditor.intervals.next)) == (3, 0)
    assert (auditor.ticks, auditor.intervals.next_tick) == (1, 2 * INTERVAL)
    count(auditor, 5)  # very late
    assert messages(auditor.intervals.current) == 4


def test_the_first_tick_is_at_a_multiple_of_the_interval() -> None:
    auditor = Ticking(Clock(3 * INTERVAL + 17))
    auditor.configure(SETTINGS)
    auditor.start()
    assert auditor.intervals.next_tick == 4 * INTERVAL
    auditor.close()


def test_the_thread_ticks_by_the_clock() -> None:
    auditor = Ticking()
    auditor.configure(SETTINGS)
    auditor.clock = lambda: 10**12 if len(auditor.ticked) < 2 else 0
    auditor._first_tick = lambda: INTERVAL  # type: ignore[method-assign]
    auditor.start()
    assert auditor.reported.wait(WAIT_S)
    auditor.close(WAIT_S)
    assert len(auditor.ticked) >= 1
    assert len(auditor.closed) == 2


def test_start_and_close_can_be_repeated_and_the_thread_ends() -> None:
    auditor = Ticking()
    auditor.configure(SETTINGS)
    auditor.start()
    stats = auditor.intervals
    auditor.start()
    assert auditor.intervals is stats
    thread = auditor._thread
    assert thread is not None
    assert thread.daemon
    auditor.close(WAIT_S)
    assert not thread.is_alive()
    closed = auditor.closed
    assert closed == [stats.current, stats.next]
    assert auditor.remaining_s is not None
    assert 0 < auditor.remaining_s <= WAIT_S
    auditor.close()
    assert auditor.closed is closed
    auditor.start()
    assert auditor._thread is thread


def test_an_auditor_that_was_never_started_can_be_closed() -> None:
    auditor = Ticking()
    auditor.configure(SETTINGS)
    auditor.close()
    assert auditor.closed == []


def test_nothing_is_counted_after_the_end(auditor: Ticking) -> None:
    count(auditor, 0)
    auditor.close()
    count(auditor, 0)
    assert [messages(stats) for stats in auditor.closed] == [1, 0]
    assert auditor.remaining_s is None


def test_a_close_does_not_wait_longer_than_its_timeout() -> None:
    released, begun = threading.Event(), threading.Event()

    class Stuck(Ticking):
        def on_closed(self, current: Any, following: Any, remaining_s: float | None) -> None:
            begun.set()
            released.wait(WAIT_S)

    auditor = Stuck()
    auditor.configure(SETTINGS)
    auditor.start()
    auditor.close(0.01)
    assert auditor._thread is not None
    assert auditor._thread.is_alive()
    released.set()
    auditor.close(WAIT_S)
    assert not auditor._thread.is_alive()
    assert begun.is_set()


def test_records_without_a_key_are_not_counted(auditor: Ticking) -> None:
    count(auditor, 0, topic="")
    assert auditor.intervals.current.counts == {}


def test_an_error_of_a_report_is_logged_and_the_thread_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    again = threading.Event()

    class Failing(Ticking):
        def on_tick(self, last_stats: Any) -> None:
            super().on_tick(last_stats)
            if len(self.ticked) > 1:
                again.set()
            raise RuntimeError("no disk")

    auditor = Failing()
    auditor.configure(SETTINGS)
    auditor.clock = lambda: 10**12 if len(auditor.ticked) < 2 else 0
    auditor._first_tick = lambda: INTERVAL  # type: ignore[method-assign]
    auditor.start()
    assert again.wait(WAIT_S)
    auditor.close(WAIT_S)
    assert [record.getMessage() for record in caplog.records] == ["auditor failed to report an interval"] * 2


def test_settings_are_those_of_the_instance() -> None:
    one, other = Ticking(), Ticking()
    one.configure({"auditor.bucket.ms": 1000})
    other.configure({})
    assert (one.settings.bucket_ms, other.settings.bucket_ms) == (1000, 600_000)
    assert (other.settings.interval_ms, other.settings.delay_ms, other.settings.auto_tick) == (600_000, 60_000, True)


def test_a_wrong_setting_is_named() -> None:
    with pytest.raises(ValueError, match=r"^auditor\.bucket\.ms: write 1 or more$"):
        Ticking().configure({"auditor.bucket.ms": 0})
    with pytest.raises(ValueError, match=r"did you mean auditor\.bucket\.ms"):
        Ticking().configure({"auditor.buckets.ms": 1})


@pytest.mark.bulk
def test_no_count_is_lost_while_threads_count_and_others_tick(auditor: Ticking) -> None:
    topics = ("a", "b", "c")

    def work() -> None:
        for number in range(10_000):
            for topic, type_ in product(topics, TYPES):
                auditor.record(None, topic, number, 1, 7, type_)

    threads = [threading.Thread(target=work) for _ in range(5)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        auditor.tick()
    auditor.tick()
    auditor.tick()
    sums: dict[tuple[str, AuditType], AuditingCounts] = {}
    for stats in auditor.ticked:
        for key, counts in stats.counts.items():
            assert isinstance(key, AuditKey)
            before = sums.get((key.topic, key.audit_type), AuditingCounts(0, 0))
            sums[key.topic, key.audit_type] = AuditingCounts(
                before.messages + counts.messages, before.bytes + counts.bytes
            )
    assert sums == {both: AuditingCounts(50_000, 350_000) for both in product(topics, TYPES)}


def test_counts_and_bytes_of_each_key_are_exact_under_concurrency() -> None:
    stats = CountingAuditStats(1000)
    keys = [AuditKey("t", bucket, type_) for bucket in range(3) for type_ in TYPES]

    def work() -> None:
        for number in range(1000):
            for key in keys:
                assert stats.update(key, 2, number)

    threads = [threading.Thread(target=work) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert stats.counts == {key: AuditingCounts(10_000, 5 * sum(range(1000))) for key in keys}
    stats.close()
    assert not stats.update(keys[0], 1, 1)


def test_an_auditor_that_reports_nothing_cannot_be_created() -> None:
    class Half(AbstractAuditor):
        def create_audit_stats(self) -> CountingAuditStats:
            return CountingAuditStats(600_000)

    with pytest.raises(TypeError, match="get_audit_key, on_closed, on_tick"):
        Half()  # type: ignore[abstract]
