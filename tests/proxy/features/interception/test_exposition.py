"""The metrics of interception: all of them, whatever an interceptor adds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from support.interception import Commits, Intercepting

from kafka_sidecar.interceptors.metrics import Histogram, Metric
from kafka_sidecar.proxy.features.interception.exposition import collect as families
from kafka_sidecar.proxy.server.admin.exposition import render
from kafka_sidecar.proxy.telemetry.metrics import Metrics

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def metrics(interception: Intercepting) -> tuple[str, Samples]:
    """The page and its samples as Prometheus' own reader has them; a family that is there twice fails."""
    interception.stats.guards = interception.catalog.guards
    page = render(Metrics(features=[lambda: families(interception.stats)])).decode()
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
