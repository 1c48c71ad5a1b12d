"""Metrics of large messages, in Prometheus format."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric as MetricFamily

from kafka_sidecar.proxy.features.large_messages.large_messages import LargeMessages
from kafka_sidecar.proxy.telemetry.prometheus import PREFIX

NAME = PREFIX + "large_messages_"


def collect(large_messages: LargeMessages) -> Iterator[MetricFamily]:
    """All metric families of large messages."""
    stats = large_messages.stats
    split = CounterMetricFamily(NAME + "split", "Large messages that clients have sent", labels=["result"])
    for result, number in list(stats.split.items()):
        split.add_metric([result], number)
    yield split
    yield CounterMetricFamily(NAME + "slices", "Slices that brokers have stored", value=stats.slices)
    yield CounterMetricFamily(NAME + "slice_bytes", "Bytes of these slices, as sent", value=stats.slice_bytes)
    offsets = CounterMetricFamily(
        NAME + "offsets", "Committed offsets of topics with large messages", labels=["stored"]
    )
    for form, number in list(stats.stored_offsets.items()):
        offsets.add_metric([form], number)
    yield offsets
    yield CounterMetricFamily(NAME + "objects", "Values that were stored as objects", value=stats.objects)
    yield CounterMetricFamily(NAME + "object_bytes", "Bytes of these values", value=stats.object_bytes)
    yield CounterMetricFamily(NAME + "orphans", "Slices of batches that were then not stored", value=stats.orphans)
    yield from _assembled(large_messages)


def _assembled(large_messages: LargeMessages) -> Iterator[MetricFamily]:
    stats, cache = large_messages.assembling.stats, large_messages.assembling.cache
    yield CounterMetricFamily(NAME + "assembled", "Large messages that were delivered whole", value=stats.assembled)
    yield CounterMetricFamily(NAME + "assembled_bytes", "Bytes of their values", value=stats.assembled_bytes)
    yield CounterMetricFamily(NAME + "hidden", "Segments that consumers were not shown", value=stats.hidden)
    dropped = CounterMetricFamily(NAME + "dropped", "Large messages that cannot be assembled", labels=["reason"])
    for reason, number in list(stats.dropped.items()):
        dropped.add_metric([reason], number)
    yield dropped
    withheld = CounterMetricFamily(
        NAME + "withheld", "Responses that end before records that cannot be looked into", labels=["reason"]
    )
    for reason, number in list(stats.withheld.items()):
        withheld.add_metric([reason], number)
    yield withheld
    yield CounterMetricFamily(NAME + "reads", "Requests of our own for segments", value=stats.reads)
    yield CounterMetricFamily(NAME + "read_bytes", "Bytes of the records in their responses", value=stats.read_bytes)
    yield CounterMetricFamily(NAME + "look_backs", "Searches for segments before a message", value=stats.look_backs)
    yield CounterMetricFamily(NAME + "cache_hits", "Segments that were in the cache when needed", value=cache.hits)
    yield GaugeMetricFamily(NAME + "cache_bytes", "Bytes of the segments in the cache", value=cache.bytes)
