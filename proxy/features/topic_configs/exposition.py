"""Metrics of topic configs."""

from __future__ import annotations

from collections.abc import Iterator

from kafka_sidecar.proxy.features.topic_configs.configs import TopicConfigs
from kafka_sidecar.proxy.telemetry.metrics import Family, counter, gauge


def collect(configs: TopicConfigs) -> Iterator[Family]:
    """All metrics of topic configs."""
    yield gauge("topic_configs_entries", "Topics with stored configs that apply", len(configs.entries))
    yield gauge(
        "topic_configs_trouble",
        "1 while the topic of topic configs cannot be read, or is lost; 0 otherwise",
        {
            "unreadable": int(configs.trouble is not None and configs.lost is None),
            "lost": int(configs.lost is not None),
        },
        "reason",
    )
    changes = {name: configs.changes[name] for name in configs.own}
    yield counter("topic_config_changes", "Changes of clients that were stored", changes, "config")
    about = "Records of the topic that are no topic configs"
    yield counter("topic_configs_unreadable_records", about, configs.unreadable)
