"""Counters of interception, and rate-limited log lines without contents of records."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from support.interception import Commits, Intercepting

from kafka_sidecar.interceptors.contract import TopicPartition
from kafka_sidecar.interceptors.metrics import Histogram, Metric
from kafka_sidecar.proxy.features.interception.interception import LOG_INTERVAL_S, InterceptionStats
from kafka_sidecar.proxy.server.admin.exposition import render
from kafka_sidecar.proxy.telemetry.logs import JsonLines
from kafka_sidecar.proxy.telemetry.metrics import Metrics

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def lines(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [vars(record) for record in caplog.records]


def test_one_line_for_each_interceptor_hook_and_kind_of_failure_is_written_a_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = Clock()
    seen = InterceptionStats(clock)
    for _ in range(5):
        seen.failed("mine", "on_send", RuntimeError("a bug"))
        seen.failed("mine", "on_send", KeyError("another"))
        seen.failed("mine", "on_consume", RuntimeError("a bug"))
        seen.failed("other", "on_send", RuntimeError("a bug"))
    clock.now += LOG_INTERVAL_S
    seen.failed("mine", "on_send", RuntimeError("a bug"))
    logged = [(line["interceptor"], line["hook"], line["suppressed"]) for line in lines(caplog)]
    assert logged == [
        ("mine", "on_send", 0), ("mine", "on_send", 0), ("mine", "on_consume", 0), ("other", "on_send", 0),
        ("mine", "on_send", 4),
    ]  # fmt: skip
    assert {line["message"] for line in lines(caplog)} == {"interceptor failed"}


@pytest.mark.parametrize(("level", "is_logged"), [("INFO", False), ("DEBUG", True)])
def test_the_text_of_a_failure_may_quote_a_record_and_is_logged_at_debug_only(
    level: str, is_logged: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(level)
    secret = "4111" * 4
    try:
        int(f"card {secret}")
    except ValueError as error:
        InterceptionStats(Clock()).failed("mine", "on_send", error)
    written = JsonLines().format(caplog.records[0])
    assert "ValueError" in written
    assert "test_stats.py" in written
    assert (secret in written) is is_logged


def test_failures_and_slow_calls_name_the_topic_and_partition(caplog: pytest.LogCaptureFixture) -> None:
    seen = InterceptionStats(Clock())
    seen.failed("mine", "on_send", RuntimeError("a bug"), TopicPartition("orders", 3))
    seen.slow("mine", "on_send", 0.2, TopicPartition("orders", 4))
    seen.failed("mine", "pre_commit", RuntimeError("a bug"), None)
    logged = [(line.get("topic"), line.get("partition")) for line in lines(caplog)]
    assert logged == [("orders", 3), ("orders", 4), (None, None)]


def test_slow_calls_are_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    seen = InterceptionStats(Clock())
    for _ in range(3):
        seen.slow("mine", "on_send", 0.1234567)
    (line,) = lines(caplog)
    assert (line["message"], line["interceptor"], line["hook"]) == ("interceptor over budget", "mine", "on_send")
    assert (line["duration_s"], line["levelno"]) == (0.123, logging.WARNING)


def test_a_disabled_interceptor_is_always_logged(caplog: pytest.LogCaptureFixture) -> None:
    seen = InterceptionStats(Clock())
    for _ in range(2):
        seen.disabled("mine", 100, 60.0)
    assert [(line["message"], line["failures"], line["pause_s"], line["levelno"]) for line in lines(caplog)] == [
        ("interceptor disabled", 100, 60.0, logging.ERROR)
    ] * 2


def test_skipped_batches_are_counted_and_logged_once_a_minute_for_each_reason(
    caplog: pytest.LogCaptureFixture,
) -> None:
    seen = InterceptionStats(Clock())
    for _ in range(3):
        seen.skipped("Fetch", "too_large", "orders")
    seen.skipped("Fetch", "unreadable", "orders")
    assert seen.batches == {("Fetch", "too_large"): 3, ("Fetch", "unreadable"): 1}
    assert [(line["api"], line["reason"], line["topic"]) for line in lines(caplog)] == [
        ("Fetch", "too_large", "orders"), ("Fetch", "unreadable", "orders"),
    ]  # fmt: skip


def metrics(interception: Intercepting) -> tuple[str, Samples]:
    """The page and its samples as Prometheus' own reader has them; a family that is there twice fails."""
    interception.stats.guards = interception.catalog.guards
    page = render(Metrics(features=[interception.stats.families])).decode()
    types = [line for line in page.splitlines() if line.startswith("# TYPE ")]
    assert len({line.split()[2] for line in types}) == len(types)
    return page, {
        (sample.name.removeprefix("kafka_sidecar_"), frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }


def of(name: str, **labels: str) -> tuple[str, frozenset[tuple[str, str]]]:
    return name, frozenset(labels.items())


def gives(interception: Intercepting, at: int, metrics: Callable[[], Iterable[Any]]) -> None:
    interception.interceptors[at].metrics = metrics


def test_what_was_intercepted_and_what_interceptors_cost_is_shown() -> None:
    interception = Intercepting("Adds", "Commits")
    interception.stats.batches["Produce", "changed"] = 3
    interception.stats.commits["dropped"] = 2
    guard, slow = interception.catalog.guards
    guard.failed("on_send", RuntimeError("a bug"))
    slow.over_budget["pre_commit"] = 4
    slow.calls["pre_commit"] = Histogram()
    slow.calls["pre_commit"].add(100, 2)
    slow.disabled_until = slow.clock() + 60
    _, found = metrics(interception)
    assert found[of("intercepted_batches_total", api_key="Produce", result="changed")] == 3
    assert found[of("intercepted_offsets_total", result="dropped")] == 2
    assert found[of("interceptor_failures_total", interceptor="Adds0", hook="on_send")] == 1
    assert found[of("interceptor_over_budget_total", interceptor="Commits1", hook="pre_commit")] == 4
    assert found[of("interceptor_call_seconds_count", interceptor="Commits1", hook="pre_commit")] == 2
    assert found[of("interceptor_call_seconds_sum", interceptor="Commits1", hook="pre_commit")] == pytest.approx(2e-4)
    assert found[of("interceptor_disabled", interceptor="Adds0")] == 0
    assert found[of("interceptor_disabled", interceptor="Commits1")] == 1


def test_metrics_of_an_interceptor_have_its_name_as_label() -> None:
    interception = Intercepting("Commits")
    histogram = Histogram()
    histogram.add(20, 3)

    def own() -> Iterable[Metric]:
        yield Metric("a", "A.", ("topic",), counters={("x",): 1, ('odd"\n\\',): 2})
        yield Metric("b", "B.", (), gauges={(): 1.5})
        yield Metric("c", "C.", ("topic",), histograms={("x",): histogram})
        yield Metric("nothing", "Nothing yet.", ("topic",))

    gives(interception, 0, own)
    page, found = metrics(interception)
    assert found[of("a_total", interceptor="Commits0", topic="x")] == 1
    assert found[of("a_total", interceptor="Commits0", topic='odd"\n\\')] == 2
    assert found[of("b", interceptor="Commits0")] == 1.5
    assert found[of("c_bucket", interceptor="Commits0", topic="x", le="+Inf")] == 3
    assert found[of("c_sum", interceptor="Commits0", topic="x")] == pytest.approx(6e-5)
    assert "nothing" not in page


def test_two_interceptors_of_one_type_share_a_metric() -> None:
    _, found = metrics(Intercepting("Adds", "Adds"))
    assert {of("acknowledgements_total", interceptor=name) for name in ("Adds0", "Adds1")} <= found.keys()


def raising() -> Iterable[Metric]:
    yield Metric("good", "Good.", (), {(): 1})
    raise RuntimeError("a bug")


def exiting() -> Iterable[Metric]:
    raise SystemExit(3)


def panicking() -> Iterable[Metric]:
    raise BaseException("unwrap")


ODD: dict[str, Callable[[], Iterable[Any]]] = {
    "raises": raising,
    "exits": exiting,
    "panics": panicking,
    "no metrics": lambda: [None],
    "nothing": lambda: None,  # type: ignore[dict-item, return-value]
    "no number": lambda: [Metric("x", "X.", (), {(): "many"})],  # type: ignore[dict-item]
    "a list": lambda: [Metric("x", "X.", (), {(): [1]})],  # type: ignore[dict-item]
    "not about anything": lambda: [Metric("x", None, (), {(): 1})],  # type: ignore[arg-type]
    "no name": lambda: [Metric("no name", "X.", (), {(): 1})],
    "too few labels": lambda: [Metric("x", "X.", ("a", "b"), {("1",): 1})],
    "too many labels": lambda: [Metric("x", "X.", (), {("1",): 1})],
    "two kinds": lambda: [Metric("x", "X.", (), {(): 1}, {(): 2}, {(): Histogram()})],
    "other labels": lambda: [Metric("acknowledgements", "X.", ("topic",), {("x",): 1})],
    "another kind": lambda: [Metric("acknowledgements", "X.", (), {}, {(): 1})],
}


@pytest.mark.parametrize("what", ODD)
def test_invalid_metrics_of_an_interceptor_do_not_break_the_page(what: str) -> None:
    interception = Intercepting("Adds", "Commits", "Adds")
    gives(interception, 1, ODD[what])
    _, found = metrics(interception)
    assert {of("acknowledgements_total", interceptor=name) for name in ("Adds0", "Adds2")} <= found.keys()


def test_a_failure_of_metrics_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    interception = Intercepting("Commits")
    gives(interception, 0, raising)
    for _ in range(2):
        metrics(interception)
    assert [vars(record)["hook"] for record in caplog.records] == ["metrics"]


def test_label_values_are_rendered_as_text() -> None:
    interception = Intercepting("Commits")
    gives(interception, 0, lambda: [Metric("x", "X.", ("partition",), {(3,): 1})])  # type: ignore[dict-item]
    assert metrics(interception)[1][of("x_total", interceptor="Commits0", partition="3")] == 1
    assert isinstance(interception.interceptors[0], Commits)


def test_label_values_with_surrogates_are_escaped() -> None:
    interception = Intercepting("Commits")
    gives(interception, 0, lambda: [Metric("x", "X.", ("client_id",), {("\udcff",): 1})])
    assert metrics(interception)[1][of("x_total", interceptor="Commits0", client_id="\\udcff")] == 1
