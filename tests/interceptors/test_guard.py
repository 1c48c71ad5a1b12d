"""The guard of one interceptor: what is caught, measured and counted, and when it is disabled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_sidecar.codec.checkpoint import StoppedError
from kafka_sidecar.interceptors.contract import (
    Context,
    Hints,
    Interceptor,
    ProducerInterceptor,
    RecordMetadata,
    TopicPartition,
)
from kafka_sidecar.interceptors.guard import Guard, Limits, RecordCalls, group_guards, has_override
from kafka_sidecar.interceptors.records import ProducerRecord

PLACE = TopicPartition("orders", 3)
LIMITS = Limits(budget_s=0.5, failures=3, pause_s=60)


class Works:
    """A guard with a fake clock, and calls that succeed, fail or are slow."""

    def __init__(self, report: Any, limits: Limits = LIMITS, hints: Hints | None = None) -> None:
        self.now, self.asked = 1000.0, 0
        self.guard = Guard("it", Interceptor(), hints or Hints(), report, limits=limits, clock=lambda: self.now)

    def succeeds(self, takes: float = 0) -> object:
        def call() -> str:
            self.asked += 1
            self.now += takes
            return "answer"

        return self.guard.call("on_send", call)

    def fails(self, error: BaseException | None = None) -> object:
        def call() -> None:
            self.asked += 1
            raise error or ValueError("bug")

        return self.guard.call("on_send", call)


def test_the_result_of_the_hook_is_returned(report: Any) -> None:
    works = Works(report)
    assert works.guard.call("on_send", lambda one, other: one + other, 1, 2) == 3


def test_an_exception_is_caught_counted_and_reported(report: Any) -> None:
    works = Works(report)
    assert works.fails() is None
    assert works.guard.failures == {"on_send": 1}
    assert report.failures == [("it", "on_send", "ValueError: bug")]


@pytest.mark.parametrize(
    "error", [SystemExit(1), KeyboardInterrupt(), asyncio.CancelledError(), GeneratorExit(), BaseException("panic")]
)
def test_system_exit_and_cancellation_are_caught_like_other_exceptions(error: BaseException, report: Any) -> None:
    assert Works(report).fails(error) is None
    assert len(report.failures) == 1


def test_bytes_that_are_no_text_disable_an_interceptor_for_no_client(report: Any) -> None:
    works = Works(report)
    for _ in range(10):
        works.fails(UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"))
        works.fails(UnicodeEncodeError("utf-8", "\udcff", 0, 1, "surrogates not allowed"))
    assert works.asked == 20
    assert works.guard.failures == {"on_send": 20}
    assert not works.guard.is_disabled


def test_an_interceptor_is_disabled_for_a_pause_after_consecutive_failures(report: Any) -> None:
    works = Works(report)
    for _ in range(3):
        assert not works.guard.is_disabled
        works.fails()
    assert works.guard.is_disabled
    assert report.out == [("it", 3)]
    works.now += 59.9
    assert works.succeeds() is None
    assert works.asked == 3


def test_after_the_pause_one_success_enables_the_interceptor_again(report: Any) -> None:
    works = Works(report)
    for _ in range(3):
        works.fails()
    works.now += 60
    assert works.succeeds() == "answer"
    works.fails()
    works.fails()
    assert not works.guard.is_disabled


def test_after_the_pause_one_failure_disables_the_interceptor_again(report: Any) -> None:
    works = Works(report)
    for _ in range(3):
        works.fails()
    works.now += 60
    works.fails()
    assert works.guard.is_disabled
    assert report.out == [("it", 3), ("it", 4)]


def test_only_consecutive_failures_are_counted(report: Any) -> None:
    works = Works(report)
    for _ in range(10):
        works.fails()
        works.fails()
        works.succeeds()
    assert report.out == []
    assert works.guard.failures == {"on_send": 20}


def test_with_a_failure_limit_of_zero_an_interceptor_is_never_disabled(report: Any) -> None:
    works = Works(report, Limits(failures=0))
    for _ in range(1000):
        works.fails()
    assert works.succeeds() == "answer"
    assert report.out == []


def test_a_fail_closed_interceptor_is_never_disabled(report: Any) -> None:
    works = Works(report, hints=Hints(fail_closed=True))
    for _ in range(10):
        works.fails()
        works.succeeds(takes=0.6)
    assert works.succeeds() == "answer"
    assert report.out == []
    assert len(report.failures) == len(report.slow_calls) == 10


def test_the_result_of_a_slow_call_is_used_but_counted_as_a_failure(report: Any) -> None:
    works = Works(report)
    for _ in range(3):
        assert works.succeeds(takes=0.6) == "answer"
    assert works.guard.over_budget == {"on_send": 3}
    assert works.guard.failures == {}
    assert report.slow_calls == [("it", "on_send")] * 3
    assert works.guard.is_disabled


def test_a_call_may_take_as_long_as_its_budget(report: Any) -> None:
    works = Works(report)
    works.succeeds(takes=0.5)
    assert report.slow_calls == []


def test_the_time_of_every_call_is_counted_by_hook(report: Any) -> None:
    works = Works(report)
    works.succeeds(takes=0.25)
    works.guard.call("on_commit", lambda: None)
    assert {hook: (sum(one.counts), one.total_us) for hook, one in works.guard.calls.items()} == {
        "on_send": (1, 250_000),
        "on_commit": (1, 0),
    }


@pytest.mark.parametrize(
    ("configured", "hinted", "topic", "expected"),
    [
        (("*",), ("*",), "orders", True),
        (("orders", "pay*"), ("*",), "payments", True),
        (("orders", "pay*"), ("*",), "Payments", False),
        (("*",), ("order?",), "orders", True),
        (("pay*",), ("order?",), "orders", False),
        ((), ("*",), "orders", False),
    ],
)
def test_a_guard_applies_to_topics_in_both_the_configuration_and_the_hints(
    configured: tuple[str, ...], hinted: tuple[str, ...], topic: str, expected: bool, report: Any
) -> None:
    assert Guard("it", Interceptor(), Hints(topics=hinted), report, configured).applies_to(topic) is expected


class Sends(ProducerInterceptor):
    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        return record


class SendsWhole(ProducerInterceptor):
    on_send_batch: Callable[..., Any] = lambda self, batch: batch.records


class Acknowledges(ProducerInterceptor):
    def on_acknowledgement(self, metadata: RecordMetadata, exception: Exception | None) -> None:
        """Not for sending."""


def test_consecutive_guards_are_grouped_if_they_have_the_same_kind_of_hook(report: Any) -> None:
    kinds = (Sends, Acknowledges, Sends, SendsWhole, Interceptor, SendsWhole, Sends)
    guards = [Guard(str(at), kind(), Hints(), report) for at, kind in enumerate(kinds)]
    found = group_guards(guards, ProducerInterceptor, "on_send_batch", "on_send")
    assert [(run.by_batch, [guard.name for guard in run.guards]) for run in found] == [
        (False, ["0", "2"]),
        (True, ["3", "5"]),
        (False, ["6"]),
    ]


def test_only_a_redefined_hook_counts_as_an_override() -> None:
    assert has_override(Sends(), ProducerInterceptor, "on_send")
    assert not has_override(Acknowledges(), ProducerInterceptor, "on_send")


def test_the_budget_of_a_call_grows_with_the_number_of_records(report: Any) -> None:
    now = [0.0]
    guard = Guard("it", Interceptor(), Hints(), report, limits=Limits(budget_s=0.1), clock=lambda: now[0])

    def slow() -> None:
        now[0] += 0.25

    guard.call("on_send", slow, records=3000)
    assert guard.over_budget == {}
    guard.call("on_send", slow, records=2000)
    assert guard.over_budget == {"on_send": 1}


class CallsForRecords(Works):
    """The same for calls about the records of a batch, each of which takes some seconds or raises."""

    def __init__(self, report: Any, limits: Limits = LIMITS) -> None:
        super().__init__(report, limits)
        self.calls = RecordCalls(self.guard, "on_send", self._answer, self._check, PLACE)

    def _answer(self, record: Any) -> Any:
        self.asked += 1
        if isinstance(record, BaseException):
            raise record
        self.now += record if isinstance(record, float) else 0
        return "another" if record == "other" else record

    def _check(self, answer: Any, record: Any) -> None:
        raise TypeError(f"{answer} for {record}")

    def histogram(self) -> tuple[list[int], int]:
        self.calls.end()
        calls = self.guard.calls["on_send"]
        return [*calls.counts[:3], sum(calls.counts[3:])], calls.total_us


def test_calls_per_record_are_all_counted_also_those_below_a_microsecond(report: Any) -> None:
    works = CallsForRecords(report)

    assert [works.calls.call(record) for record in (0.0, 1e-7, 1.5e-6, 0.25)] == [0.0, 1e-7, 1.5e-6, 0.25]

    assert works.histogram() == ([2, 1, 0, 1], 250_001)
    assert report.slow_calls == []


def test_exceptions_slow_calls_and_invalid_results_per_record_count_as_failures(report: Any) -> None:
    works = CallsForRecords(report)
    for record in (ValueError("bug"), 0.6, "other"):
        assert not works.guard.is_disabled
        works.calls.call(record)

    assert report.out == [("it", 3)]
    assert report.failures == [("it", "on_send", "ValueError: bug"), ("it", "on_send", "TypeError: another for other")]
    assert report.places == [PLACE, PLACE, PLACE]
    assert report.slow_calls == [("it", "on_send")]
    assert works.calls.call(0.0) is None
    assert works.asked == 3


def test_a_call_that_is_stopped_is_not_a_failure_of_the_interceptor(report: Any) -> None:
    works = CallsForRecords(report)
    for call in (works.fails, works.calls.call):
        with pytest.raises(StoppedError):
            call(StoppedError())
    assert works.guard.failures == {}
    assert report.failures == []


def test_a_fast_success_resets_the_consecutive_failures(report: Any) -> None:
    works = CallsForRecords(report)
    for record in [ValueError(), ValueError(), 0.0] * 5:
        works.calls.call(record)

    assert report.out == []
    assert works.histogram() == ([5, 0, 0, 0], 0)


def test_a_budget_below_a_microsecond_is_enforced_per_record(report: Any) -> None:
    works = CallsForRecords(report, Limits(budget_s=1e-8))

    works.calls.call(5e-7)

    assert works.guard.over_budget == {"on_send": 1}


def test_one_client_disables_an_interceptor_for_itself_and_not_for_others(report: Any) -> None:
    guard = Guard("own", Interceptor(), Hints(), report, limits=Limits(failures=3))
    contexts = [Context(lambda: 0, host=f"10.0.0.{number}") for number in range(4)]

    def call(context: Context, fails: bool) -> object:
        batch = SimpleNamespace(context=context)
        return guard.call("on_send", lambda _: 1 // 0 if fails else "called", batch)

    for _ in range(10):
        call(contexts[0], fails=True)
    assert guard.failures["on_send"] == 3
    assert call(contexts[0], fails=False) is None
    assert call(contexts[1], fails=False) == "called"
    assert guard.is_disabled
    for context in contexts[1:3]:
        for _ in range(3):
            call(context, fails=True)
    assert call(contexts[3], fails=False) is None  # it fails for everybody
