"""Metrics say how many topic configs apply, and whether their log can be read or is lost."""

from __future__ import annotations

from typing import Any

from support.topic_configs import POLICY, Cluster

from kafka_sidecar.proxy.features.topic_configs.configs import TopicConfigs
from kafka_sidecar.proxy.features.topic_configs.entries import Change

NONE_REFUSED = {"topic_config_refusals invalid": 0, "topic_config_refusals failed": 0}
CHANGES = f"topic_config_changes {POLICY}"


def read(configs: TopicConfigs) -> dict[str, Any]:
    """Name without prefix, and the reason -> value."""
    return {
        " ".join((family.name.removeprefix("topic_configs_"), *labels)): value
        for family in configs.families()
        for labels, value in family.samples.items()
    }


async def test_entries_and_troubles_are_counted(cluster: Cluster) -> None:
    async with cluster.sidecar() as configs:
        nothing = {
            "entries": 0,
            "trouble unreadable": 0,
            "trouble lost": 0,
            "unreadable_records": 0,
            CHANGES: 0,
            **NONE_REFUSED,
        }
        assert read(configs) == nothing
        await configs.store([Change("orders", {POLICY: "headers"}), Change("payments", {POLICY: "size"})])
        cluster.log.append(b"no id", b"{}")
        stored = {**nothing, "entries": 2, "unreadable_records": 1}
        assert read(configs) == stored
        (store,) = cluster.stores
        store.trouble = "no broker answers"
        assert read(configs) == {**stored, "trouble unreadable": 1}
        store.lose("it was deleted")
        assert read(configs) == {**stored, "trouble lost": 1}
