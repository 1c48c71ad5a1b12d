"""The figures about interception on /metrics: all of them, whatever an interceptor gives as its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from support.interception import Commits, Intercepting

from kafka_sidecar.interceptors.metrics import Histogram, Metric
from kafka_sidecar.proxy.admin.exposition import render
from kafka_sidecar.proxy.interception.exposition import collect as families
from kafka_sidecar.proxy.telemetry.metrics import Metrics

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def metrics(around: Intercepting) -> tuple[str, Samples]:
    """The page and its samples as Prometheus' own reader has them; a family that is there twice fails."""
    around.stats.guards = around.catalog.guards
    page = render(Metrics(features=[lambda: families(around.stats)])).decode()
    types = [line for line in page.splitlines() if line.startswith("# TYPE ")]
    assert len({line.split()[2] for line in types}) == len(types)
    return page, {
        (sample.name.removeprefix("kafka_sidecar_"), frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }


def of(name: str, **labels: str) -> tuple[str, frozenset[tuple[str, str]]]:
    return name, frozenset(labels.items())


def gives(around: Intercepting, at: int, metrics: Callable[[], Iterable[Any]]) -> None:
    around.interceptors[at].metrics = metrics


def test_what_was_intercepted_and_what_interceptors_cost_is_shown() -> None:
    around = Intercepting("Adds", "Commits")
    around.stats.batches["Produce", "changed"] = 3
    around.stats.commits["dropped"] = 2
    guard, slow = around.catalog.guards
    guard.failed("on_send", RuntimeError("a bug"))
    slow.over_budget["pre_commit"] = 4
    slow.calls["pre_commit"] = Histogram()
    slow.calls["pre_commit"].add(100, 2)
    slow.disabled_until = slow.clock() + 60
    _, found = metrics(around)
    assert found[of("intercepted_batches_total", api_key="Produce", result="changed")] == 3
    assert found[of("intercepted_offsets_total", result="dropped")] == 2
    assert found[of("interceptor_failures_total", interceptor="Adds0", hook="on_send")] == 1
    assert found[of("interceptor_over_budget_total", interceptor="Commits1", hook="pre_commit")] == 4
    assert found[of("interceptor_call_seconds_count", interceptor="Commits1", hook="pre_commit")] == 2
    assert found[of("interceptor_call_seconds_sum", interceptor="Commits1", hook="pre_commit")] == pytest.approx(2e-4)
    assert found[of("interceptor_disabled", interceptor="Adds0")] == 0
    assert found[of("interceptor_disabled", interceptor="Commits1")] == 1


def test_what_an_interceptor_counts_itself_is_shown_under_its_name() -> None:
    around = Intercepting("Commits")
    histogram = Histogram()
    histogram.add(20, 3)

    def own() -> Iterable[Metric]:
        yield Metric("a", "A.", ("topic",), counters={("x",): 1, ('odd"\n\\',): 2})
        yield Metric("b", "B.", (), gauges={(): 1.5})
        yield Metric("c", "C.", ("topic",), histograms={("x",): histogram})
        yield Metric("nothing", "Nothing yet.", ("topic",))

    gives(around, 0, own)
    page, found = metrics(around)
    assert found[of("a_total", interceptor="Commits0", topic="x")] == 1
    assert found[of("a_total", interceptor="Commits0", topic='odd"\n\\')] == 2
    assert found[of("b", interceptor="Commits0")] == 1.5
    assert found[of("c_bucket", interceptor="Commits0", topic="x", le="+Inf")] == 3
    assert found[of("c_sum", interceptor="Commits0", topic="x")] == pytest.approx(6e-5)
    assert "nothing" not in page


def test_two_interceptors_of_one_type_share_a_metric() -> None:
    _, found = metrics(Intercepting("Adds", "Adds"))
    assert {of("told_total", interceptor=name) for name in ("Adds0", "Adds1")} <= found.keys()


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
    "no figures": lambda: [None],
    "nothing": lambda: None,  # type: ignore[dict-item, return-value]
    "no number": lambda: [Metric("x", "X.", (), {(): "many"})],  # type: ignore[dict-item]
    "a list": lambda: [Metric("x", "X.", (), {(): [1]})],  # type: ignore[dict-item]
    "not about anything": lambda: [Metric("x", None, (), {(): 1})],  # type: ignore[arg-type]
    "no name": lambda: [Metric("no name", "X.", (), {(): 1})],
    "too few labels": lambda: [Metric("x", "X.", ("a", "b"), {("1",): 1})],
    "too many labels": lambda: [Metric("x", "X.", (), {("1",): 1})],
    "two kinds": lambda: [Metric("x", "X.", (), {(): 1}, {(): 2}, {(): Histogram()})],
    "other labels": lambda: [Metric("told", "X.", ("topic",), {("x",): 1})],
    "another kind": lambda: [Metric("told", "X.", (), {}, {(): 1})],
}


@pytest.mark.parametrize("what", ODD)
def test_an_interceptor_whose_figures_cannot_be_shown_does_not_take_the_page_with_it(what: str) -> None:
    around = Intercepting("Adds", "Commits", "Adds")
    gives(around, 1, ODD[what])
    _, found = metrics(around)
    assert {of("told_total", interceptor=name) for name in ("Adds0", "Adds2")} <= found.keys()


def test_a_failure_to_give_figures_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    around = Intercepting("Commits")
    gives(around, 0, raising)
    for _ in range(2):
        metrics(around)
    assert [vars(record)["hook"] for record in caplog.records] == ["metrics"]


def test_labels_that_are_no_text_are_shown_as_text() -> None:
    around = Intercepting("Commits")
    gives(around, 0, lambda: [Metric("x", "X.", ("partition",), {(3,): 1})])  # type: ignore[dict-item]
    assert metrics(around)[1][of("x_total", interceptor="Commits0", partition="3")] == 1
    assert isinstance(around.interceptors[0], Commits)


def test_labels_that_cannot_be_written_are_shown_escaped() -> None:
    around = Intercepting("Commits")
    gives(around, 0, lambda: [Metric("x", "X.", ("client_id",), {("\udcff",): 1})])
    assert metrics(around)[1][of("x_total", interceptor="Commits0", client_id="\\udcff")] == 1
