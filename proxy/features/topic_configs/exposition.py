"""Metrics of topic configs for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from kafka_sidecar.proxy.features.topic_configs.configs import TopicConfigs
from kafka_sidecar.proxy.telemetry.prometheus import PREFIX


def collect(configs: TopicConfigs) -> Iterator[Metric]:
    """All metric families of topic configs."""
    yield GaugeMetricFamily(
        PREFIX + "topic_configs_entries", "Topics with stored configs that apply", value=len(configs.entries)
    )
    trouble = GaugeMetricFamily(
        PREFIX + "topic_configs_trouble",
        "1 while the topic of topic configs cannot be read, or is lost; 0 otherwise",
        labels=["reason"],
    )
    trouble.add_metric(["unreadable"], int(configs.trouble is not None and configs.lost is None))
    trouble.add_metric(["lost"], int(configs.lost is not None))
    yield trouble
    changes = CounterMetricFamily(
        PREFIX + "topic_config_changes", "Changes of clients that were stored", labels=["config"]
    )
    for name in configs.own:
        changes.add_metric([name], configs.changes[name])
    yield changes
    yield CounterMetricFamily(
        PREFIX + "topic_configs_unreadable_records",
        "Records of the topic that are no topic configs",
        value=configs.unreadable,
    )
