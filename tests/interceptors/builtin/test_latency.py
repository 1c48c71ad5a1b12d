"""latency: histograms of produce and end-to-end latency."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kafka_sidecar.codec.records import Records
from kafka_sidecar.interceptors.catalog import InterceptorCatalog, InterceptorSettings
from kafka_sidecar.interceptors.contract import AcknowledgedBatch, Context, RecordBatch, SendError
from kafka_sidecar.interceptors.metrics import Histogram

Made = Callable[..., Any]
NOW = 1_700_000_000_000


def histograms(latency: Any) -> dict[str, dict[str, Histogram]]:
    return {one.name: {topic: found for (topic,), found in one.histograms.items()} for one in latency.metrics()}


def expected(*milliseconds: int) -> Histogram:
    histogram = Histogram()
    for ms in milliseconds:
        histogram.add(ms * 1000)
    return histogram


def test_produce_latency_is_counted_for_each_record(configured: Made, context: Callable[..., Context]) -> None:
    latency = configured("latency", end_to_end=False)
    for topic, count, took_us in ("orders", 3, 20_000), ("orders", 1, 500_000), ("customers", 2, 0):
        done = AcknowledgedBatch(topic, 0, count, context(), NOW, base_offset=7, took_us=took_us)
        latency.on_acknowledgement_batch(done, None)
    found = {"orders": expected(20, 20, 20, 500), "customers": expected(0, 0)}
    assert histograms(latency) == {"produce_latency_seconds": found}


def test_failed_records_and_acks_0_have_no_produce_latency(configured: Made, context: Callable[..., Context]) -> None:
    latency = configured("latency")
    latency.on_acknowledgement_batch(AcknowledgedBatch("orders", 0, 3, context(), NOW), SendError("no", 6))
    latency.on_acknowledgement_batch(AcknowledgedBatch("orders", 0, 3, context(), NOW), None)
    assert histograms(latency)["produce_latency_seconds"] == {}


def test_end_to_end_latency_is_counted_for_each_record_with_a_timestamp(
    configured: Made, a_batch: Callable[..., Records], context: Callable[..., Context]
) -> None:
    latency = configured("latency", produce=False)
    records = a_batch({"timestamp": NOW - 7}, {"timestamp": NOW - 7}, {"timestamp": -1}, {"timestamp": NOW + 60})
    assert latency.on_consume_batch(RecordBatch("orders", 0, records, context())) is records
    assert histograms(latency) == {"end_to_end_latency_seconds": {"orders": expected(7, 7, 0)}}


def test_end_to_end_latency_can_start_at_the_header_of_create_timestamp(
    configured: Made, a_batch: Callable[..., Records], context: Callable[..., Context]
) -> None:
    noting, latency = configured("create_timestamp"), configured("latency", **{"from": "_t"}, produce=False)
    made = noting.on_send_batch(RecordBatch("orders", 0, a_batch({"timestamp": NOW - 9}), context()))
    copied = {"timestamp": NOW, "headers": [(header.key, header.value) for header in made[0].headers]}
    others = [{"timestamp": NOW - 1, "headers": [("_t", value)]} for value in (None, b"soon")]
    latency.on_consume_batch(RecordBatch("copy", 0, a_batch(copied, {"timestamp": NOW - 1}, *others), context()))
    assert histograms(latency) == {"end_to_end_latency_seconds": {"copy": expected(9, 1, 1, 1)}}


def test_topics_beyond_the_limit_share_a_histogram(configured: Made, context: Callable[..., Context]) -> None:
    latency = configured("latency", max_topics=2)
    for number in range(4):
        done = AcknowledgedBatch(f"t{number}", 0, 1, context(), NOW, 0, took_us=number * 1000)
        latency.on_acknowledgement_batch(done, None)
    found = {"t0": expected(0), "t1": expected(1), "(other)": expected(2, 3)}
    assert histograms(latency)["produce_latency_seconds"] == found


def test_metrics_are_a_copy_of_the_histograms(configured: Made, context: Callable[..., Context]) -> None:
    latency = configured("latency")
    acknowledged = AcknowledgedBatch("orders", 0, 1, context(), NOW, 0, took_us=1000)
    latency.on_acknowledgement_batch(acknowledged, None)
    shown = histograms(latency)["produce_latency_seconds"]["orders"]
    latency.on_acknowledgement_batch(acknowledged, None)
    assert shown == expected(1)


@pytest.mark.parametrize(
    ("settings", "acknowledge", "producers_inside", "consumers"),
    [({}, True, False, True), ({"produce": False}, False, False, True), ({"end_to_end": False}, True, False, False)],
)
def test_records_are_decompressed_only_for_end_to_end_latency(
    settings: dict[str, Any], acknowledge: bool, producers_inside: bool, consumers: bool, report: Any
) -> None:
    catalog = InterceptorCatalog([InterceptorSettings("latency", "it", settings=settings)], report)
    producers = catalog.producers("orders")
    assert (producers is not None and producers.wants_acknowledgements) == acknowledge
    assert (producers is not None and producers.needs_records) == producers_inside
    assert (catalog.consumers("orders") is not None) == consumers


def test_a_latency_interceptor_that_measures_nothing_is_rejected(configured: Made) -> None:
    with pytest.raises(ValueError, match=r"^has no effect: set produce, end_to_end or both to true"):
        configured("latency", produce=False, end_to_end=False)
