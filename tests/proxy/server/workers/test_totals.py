"""Metrics of several workers as one."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from kafka_sidecar.proxy.server.workers.totals import Totals

PAGE = """\
# HELP kafka_sidecar_connections_total Connections accepted from clients
# TYPE kafka_sidecar_connections_total counter
kafka_sidecar_connections_total{{listener="bootstrap"}} {connections}
# HELP kafka_sidecar_buffered_bytes Bytes of frames that are buffered whole
# TYPE kafka_sidecar_buffered_bytes gauge
kafka_sidecar_buffered_bytes {buffered}
# HELP kafka_sidecar_cluster_reached 1 once a broker was reached, 0 before
# TYPE kafka_sidecar_cluster_reached gauge
kafka_sidecar_cluster_reached {reached}
# HELP kafka_sidecar_event_loop_delay_seconds How late a timer of the event loop fired
# TYPE kafka_sidecar_event_loop_delay_seconds histogram
kafka_sidecar_event_loop_delay_seconds_bucket{{le="0.001"}} {connections}
kafka_sidecar_event_loop_delay_seconds_bucket{{le="+Inf"}} {connections}
kafka_sidecar_event_loop_delay_seconds_count {connections}
kafka_sidecar_event_loop_delay_seconds_sum 0.5
"""


def page(connections: float, buffered: float = 0.0, reached: float = 1.0) -> str:
    return PAGE.format(connections=connections, buffered=buffered, reached=reached)


def values(totals: Totals) -> dict[str, float]:
    """By series, as Prometheus reads them."""
    found = {}
    for family in text_string_to_metric_families(totals.render()):
        for sample in family.samples:
            found[sample.name + "".join(f" {label}" for label in sample.labels.values())] = sample.value
    return found


def test_counters_histograms_and_most_gauges_are_sums() -> None:
    totals = Totals()
    totals.update(1, page(3.0, buffered=100.0))
    totals.update(2, page(4.0, buffered=50.0))
    assert values(totals) == {
        "kafka_sidecar_connections_total bootstrap": 7.0,
        "kafka_sidecar_buffered_bytes": 150.0,
        "kafka_sidecar_cluster_reached": 1.0,
        "kafka_sidecar_event_loop_delay_seconds_bucket 0.001": 7.0,
        "kafka_sidecar_event_loop_delay_seconds_bucket +Inf": 7.0,
        "kafka_sidecar_event_loop_delay_seconds_count": 7.0,
        "kafka_sidecar_event_loop_delay_seconds_sum": 1.0,
    }


def test_a_gauge_that_is_true_or_false_is_not_a_sum() -> None:
    totals = Totals()
    totals.update(1, page(0.0, reached=1.0))
    totals.update(2, page(0.0, reached=0.0))
    assert values(totals)["kafka_sidecar_cluster_reached"] == 0.0


def test_a_series_of_one_worker_alone_stays() -> None:
    totals = Totals()
    totals.update(1, page(1.0))
    totals.update(2, page(2.0).replace('"bootstrap"', '"node"'))
    found = values(totals)
    assert found["kafka_sidecar_connections_total bootstrap"] == 1.0
    assert found["kafka_sidecar_connections_total node"] == 2.0


def test_a_total_never_goes_down_when_a_worker_ends() -> None:
    totals = Totals()
    totals.update(1, page(30.0, buffered=100.0))
    totals.update(2, page(4.0, buffered=50.0))
    for connections in (30.0, 31.0):
        totals.ended(1)
        found = values(totals)
        assert found["kafka_sidecar_connections_total bootstrap"] == connections + 4.0
        assert found["kafka_sidecar_event_loop_delay_seconds_count"] == connections + 4.0
        assert found["kafka_sidecar_buffered_bytes"] == 50.0
        totals.update(1, page(1.0))
        assert values(totals)["kafka_sidecar_connections_total bootstrap"] == connections + 5.0


def test_a_worker_that_ends_before_it_was_asked_changes_nothing() -> None:
    totals = Totals()
    totals.ended(1)
    totals.update(2, page(4.0))
    assert values(totals)["kafka_sidecar_connections_total bootstrap"] == 4.0


def test_labels_and_descriptions_stay_as_they_are() -> None:
    text = (
        "# HELP kafka_sidecar_rejected_records_total With\\nlines  and spaces\n"
        "# TYPE kafka_sidecar_rejected_records_total counter\n"
        'kafka_sidecar_rejected_records_total{reason="a \\"b\\" {c} # d\\n"} 1.0\n'
    )
    totals = Totals()
    totals.update(1, text)
    assert totals.render() == text
