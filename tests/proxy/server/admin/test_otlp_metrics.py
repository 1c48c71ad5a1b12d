"""Families of Prometheus as OpenTelemetry's metrics."""

from __future__ import annotations

from opentelemetry.sdk.metrics.export import Gauge, Histogram, Sum
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from kafka_sidecar.proxy.server.admin.otlp_metrics import translate


def test_counters_gauges_and_histograms_are_translated_and_empty_families_omitted() -> None:
    counter = CounterMetricFamily("c", "a counter", labels=["api_key"])
    counter.add_metric(["Fetch"], 3)
    histogram = HistogramMetricFamily("h", "a histogram", labels=["api_key"])
    histogram.add_metric(["Fetch"], [("0.1", 1), ("1.0", 4), ("+Inf", 6)], 12.5)
    empty = CounterMetricFamily("e", "no series", labels=["x"])
    one, two, three = translate([counter, GaugeMetricFamily("g", "a gauge", value=2), empty, histogram], 5, 9)
    assert (one.name, one.description) == ("c_total", "a counter")
    assert isinstance(one.data, Sum)
    point = one.data.data_points[0]
    assert (point.attributes, point.value, point.start_time_unix_nano, point.time_unix_nano) == (
        {"api_key": "Fetch"}, 3, 5, 9,
    )  # fmt: skip
    assert isinstance(two.data, Gauge)
    assert isinstance(three.data, Histogram)
    (series,) = three.data.data_points
    assert (list(series.bucket_counts), list(series.explicit_bounds)) == ([1, 3, 2], [0.1, 1.0])
    assert (series.count, series.sum, series.attributes) == (6, 12.5, {"api_key": "Fetch"})
