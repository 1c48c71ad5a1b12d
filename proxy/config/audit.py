"""The section of the auditor and of the topic of its events."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from kafka_sidecar.plugins.units import Duration, Size
from kafka_sidecar.proxy.config.types import (
    ClassPath,
    Replicas,
    Section,
    TopicName,
    TopicPattern,
    duration_field,
    rename,
)

EVENTS = "events"
# The names of li-apache-kafka-clients, accepted in the section.
LI_NAMES: Mapping[str, str] = {
    "auditor_class": "auditor.class",
    "auditor_reporting_interval_ms": "auditor.reporting.interval.ms",
    "auditor_reporting_delay_ms": "auditor.reporting.delay.ms",
    "enable_auto_tick": "enable.auto.tick",
    "auditor_bucket_ms": "auditor.bucket.ms",
}


# YAML reads a bare off as false.
Access = Annotated[Literal["off", "denied", "all"], BeforeValidator(lambda one: "off" if one is False else one)]


class Audit(Section):
    auditor_class: str | None = None
    """Name of a built-in or plug-in, or `module:Class`. Default: `events` if there is a `topic`, else no auditing."""
    auditor_reporting_interval_ms: int = Field(default=600_000, ge=1)
    """Length of a reporting interval, in milliseconds."""
    auditor_reporting_delay_ms: int = Field(default=60_000, ge=0)
    """How long after its end an interval is reported, so that late records are counted in it."""
    enable_auto_tick: bool = True
    """Whether intervals end by the clock. Otherwise the auditor ends them itself."""
    auditor_bucket_ms: int = Field(default=600_000, ge=1)
    """Length of the buckets of event time, in milliseconds."""
    class_path: ClassPath | None = None
    """Folders, zips and wheels, separated by `:`, that are searched first for the class. Relative to this file."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """Further settings of the auditor."""
    topics: list[TopicPattern] = []  # noqa: RUF012 - pydantic copies it
    """Names of the topics that are audited; `*` matches any characters, `?` any one character. Default: all."""
    exclude_topics: list[TopicPattern] = []  # noqa: RUF012 - pydantic copies it
    """Names of topics that are not, as above. The audit topic never is."""
    emitter_id: str | None = Field(default=None, min_length=1)
    """Stable name of this sidecar in events. Default: name of the host or pod, and `listen`."""
    cluster: str | None = None
    """Id of the Kafka cluster, for events."""
    dc: str | None = None
    """Datacenter, for events."""
    app: str | None = None
    """Application, for events."""
    topic: TopicName | None = None
    """The topic to which events are sent."""
    access: Access = "off"
    """Whether events say who was `denied` something by rules, or `all` that rules decide. They need `access_topic`."""
    access_topic: TopicName | None = None
    """The topic to which these events are sent, created as the audit topic is."""
    partitions: Replicas = -1
    """Number of partitions with which that topic is created; -1: the cluster's default."""
    replication_factor: Replicas = -1
    """Replication factor with which that topic is created; -1: the cluster's default."""
    cleanup_policy: Literal["delete", "compact", "compact,delete"] = "delete"
    """Kafka's `cleanup.policy` with which that topic is created."""
    retention: Duration = duration_field("30d", gt=0)
    """For how long that topic keeps events."""
    max_buffered: Size = Field(default=64 << 20, ge=1 << 20)
    """Maximum size of events that are not sent yet. Above it the oldest are discarded, and reported as unknown."""
    spool_file: Path | None = None
    """File for events that could not be sent before the sidecar stops; they are sent after the next start."""

    @model_validator(mode="before")
    @classmethod
    def _accept_li_names(cls, values: Any) -> Any:
        return rename(values, {theirs: name for name, theirs in LI_NAMES.items()})

    @model_validator(mode="after")
    def _check_access(self) -> Audit:
        if self.access != "off" and self.access_topic is None:
            raise ValueError(f"access is {self.access}: set access_topic, the topic to which these events are sent")
        if self.access_topic is not None and self.access_topic == self.topic:
            raise ValueError("access_topic is the same as topic: name another one, these events have another schema")
        return self

    @property
    def type(self) -> str | None:
        """The auditor; None: nothing is audited."""
        return self.auditor_class or (EVENTS if self.topic is not None else None)

    @property
    def topic_configs(self) -> dict[str, str]:
        """The configs with which the audit topic is created."""
        return {"cleanup.policy": self.cleanup_policy, "retention.ms": str(round(self.retention * 1000))}
