"""The sections of dead letters: of a topic, and of what sends them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator
from pydantic.json_schema import WithJsonSchema

from kafka_sidecar.codec import topic_names
from kafka_sidecar.plugins.units import Size
from kafka_sidecar.proxy.config.types import Replicas, Section

TOPIC = "{topic}"  # in the name of a dead letter topic: that of the topic


def name_for(template: str, topic: str) -> str:
    """The dead letter topic of a topic, or of all that match a pattern.

    >>> name_for("{topic}.dlq", "orders")
    'orders.dlq'
    """
    return template.replace(TOPIC, topic)


def _check_template(value: str) -> str:
    if not topic_names.is_topic_name(name_for(value, "t")):
        raise ValueError(
            f"write the name of a topic: up to 249 letters, digits, '.', '_' and '-', and {TOPIC} for the topic's own"
        )
    return value


_TEMPLATE = r"([a-zA-Z0-9._-]|\{topic\})+"
TopicTemplate = Annotated[
    str, AfterValidator(_check_template), WithJsonSchema({"type": "string", "pattern": f"^{_TEMPLATE}$"})
]


class TopicDeadLetters(Section):
    """Where rejected records of a topic go: a mapping, or just the name of the dead letter topic."""

    @model_validator(mode="before")
    @classmethod
    def _topic_alone(cls, values: Any) -> Any:
        return {"topic": values} if isinstance(values, str) else values

    topic: TopicTemplate
    """Name of the dead letter topic; `{topic}` in it is the name of the topic."""
    shadow: bool = False
    """Whether records that `shadow` would reject are stored there too, as copies."""
    records: Literal["batch", "rejected"] = "batch"
    """All records of a rejected batch, none of which is written (KIP-467), or only those that a policy rejects."""


def allow_name(schema: dict[str, Any]) -> None:
    """Also in the schema."""
    section = {key: schema.pop(key) for key in ("$ref", "anyOf", "allOf") if key in schema}
    kinds = section.pop("anyOf", [section] if section else [])
    schema["anyOf"] = [{"type": "string", "pattern": f"^{_TEMPLATE}$"}, *kinds]


class DeadLetterCreation(Section):
    """How a dead letter topic is created that does not exist."""

    partitions: Replicas = -1
    """Number of partitions; -1: the cluster's default."""
    replication_factor: Replicas = -1
    """Replication factor; -1: the cluster's default."""
    configs: dict[str, str] = Field(default_factory=dict)
    """Configs by Kafka's names, such as `retention.ms`. `max.message.bytes` is 2 MiB unless it is set here."""


class DeadLetters(Section):
    max_buffered: Size = Field(default=32 << 20, ge=1 << 20)
    """Maximum size in memory of letters that are not sent yet."""
    max_records_rate: int = Field(default=1000, ge=1)
    """Letters a second, ten times as many at once; what is above is dropped, and counted."""
    max_bytes_rate: Size = Field(default=4 << 20, ge=1 << 10)
    """Bytes of letters a second, ten times as many at once; what is above is dropped, and counted."""
    spool_folder: Path | None = None
    """Folder for letters that brokers do not take, also across restarts. Default: none, they stay in memory."""
    max_spooled: Size = Field(default=256 << 20, ge=1 << 20)
    """Maximum size of the files in that folder."""
    create: DeadLetterCreation | None = None
    """How dead letter topics are created that do not exist. Default: they must exist."""
