"""What a run changes at the broker and asks of it, past the sidecar."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic
from integration.scenarios.security import Security
from integration.scenarios.target import LIMIT_S, SILENT, admin_client
from integration.validation.wire import Wire

from kafka_sidecar.codec.apis import ApiKey

GROUP = 32  # the type of resource
SET = 0
OFFSET_FETCH = 9  # the newest version that names topics


def configure_share_group(direct: str, group: str, **configs: str | int) -> None:
    """Make a share group begin at the start of its topics, and what else is set: `share.` and a name."""
    values = {"auto_offset_reset": "earliest", **configs}
    changes = [
        {"name": f"share.{name.replace('_', '.')}", "config_operation": SET, "value": str(value)}
        for name, value in values.items()
    ]
    with Wire(direct) as wire:
        resources = [{"resource_type": GROUP, "resource_name": group, "configs": changes}]
        said = wire.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=resources, validate_only=False)
    assert [int(one.error_code) for one in said.responses] == [0]


def throttle(direct: str, client_ids: Iterable[str], fetched: float, produced: float) -> None:
    """Limit the bytes per second of each client."""
    ops = [{"key": "consumer_byte_rate", "value": fetched, "remove": False},
           {"key": "producer_byte_rate", "value": produced, "remove": False}]  # fmt: skip
    entries = [{"entity": [{"entity_type": "client-id", "entity_name": one}], "ops": ops} for one in client_ids]
    with Wire(direct) as wire:
        said = wire.ask(ApiKey.ALTER_CLIENT_QUOTAS, 1, entries=entries, validate_only=False)
    assert {int(one.error_code) for one in said.entries} == {0}


def share_lag(direct: str, group: str, topic: str) -> int:
    """How many offsets a share group has not done with; -1: it has not begun with each partition."""
    with Wire(direct) as wire:
        said = wire.ask(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, 1, groups=[{"group_id": group, "topics": None}])
    lags = [int(one.lag) for named in said.groups[0].topics if named.topic_name == topic for one in named.partitions]
    return sum(lags) if len(lags) == 2 and min(lags) >= 0 else -1


def stored_offsets(direct: str, group: str, topic: str) -> dict[int, int]:
    """What the broker has of a group's commits."""
    with Wire(direct) as wire:
        groups = [{"group_id": group, "topics": None, "member_epoch": -1}]
        said = wire.ask(ApiKey.OFFSET_FETCH, OFFSET_FETCH, groups=groups, require_stable=True)
    named = [one for one in said.groups[0].topics if one.name == topic]
    return {int(one.partition_index): int(one.committed_offset) for topic_ in named for one in topic_.partitions}


def set_configs(bootstrap: str, security: Security, topic: str, configs: Mapping[str, str]) -> None:
    """The topic's own configs, with Kafka's admin client."""
    entries = [ConfigEntry(*one, incremental_operation=AlterConfigOpType.SET) for one in configs.items()]
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
    admin = admin_client(bootstrap, security)
    admin.incremental_alter_configs([resource])[resource].result(LIMIT_S)


def refusals(bootstrap: str, security: Security, topic: str, new: str) -> list[str]:
    """The errors of a client that deletes a topic, alters it, and creates another one with one partition."""
    admin = admin_client(bootstrap, security)
    entry = ConfigEntry("segment.ms", "60000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    futures = [
        admin.delete_topics([topic])[topic],
        admin.incremental_alter_configs([resource])[resource],
        admin.create_topics([NewTopic(new, 1)])[new],
    ]
    errors = [future.exception(LIMIT_S) for future in futures]
    return [error.args[0].name() if isinstance(error, KafkaException) else str(error) for error in errors]


def metadata(bootstrap: str, version: int, topic: str) -> list[tuple[str, int]]:
    """The topics of a Metadata response to a request for one, and their error codes."""
    with Wire(bootstrap) as wire:
        said = wire.ask(ApiKey.METADATA, version, topics=[{"name": topic}])
    return [(one.name, int(one.error_code)) for one in said.topics]


def topics(direct: str) -> set[str]:
    """All that there are."""
    return {*admin_client(direct).list_topics(timeout=LIMIT_S).topics}


def write_one(direct: str, topic: str) -> None:
    """One record that no client must get."""
    producer = Producer({"bootstrap.servers": direct, "logger": SILENT})
    producer.produce(topic, b"secret", partition=0)
    assert producer.flush(LIMIT_S) == 0
