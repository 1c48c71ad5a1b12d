"""The sections of the configuration file, but for the whole: what can be set, and what it is when it is not."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from kafka_sidecar.plugins.units import Duration, Size
from kafka_sidecar.proxy.config.types import BindableAddress, Level, Replicas, lasting

# YAML reads a bare off as false.
Mode = Annotated[Literal["enforce", "shadow", "off"], BeforeValidator(lambda mode: "off" if mode is False else mode)]


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    @model_validator(mode="before")
    @classmethod
    def _nothing_set_is_all_defaults(cls, values: Any) -> Any:
        return {} if values is None else values  # "nodes:" with all its settings commented out


class Nodes(Section):
    advertised_host: str | None = None
    """Host that clients are told for every broker. Default: the host of `listen`."""
    first_port: int | None = Field(default=None, ge=1, le=65535)
    """Node N listens at this port plus N. Default: the port of `listen` plus 1."""
    ports: int = Field(default=100, ge=1, le=65535)
    """How many ports from `first_port` may be used; a node id outside gets a port of this range too."""
    state_file: Path | None = None
    """Where the addresses of brokers are kept across restarts; needed only where they demand SASL. Default: nowhere."""


class Connections(Section):
    connect_timeout: Duration = lasting("5s", gt=0)
    """How long one attempt to reach a broker may take."""
    drain_timeout: Duration = lasting("30s")
    """How long open connections are still served after SIGTERM."""
    max_frame: Size = Field(default=100 << 20, ge=1 << 10)
    """The largest request, and the largest answer that has to be read whole. Kafka: `socket.request.max.bytes`."""
    source_address: str | None = None
    """Local address from which brokers are reached. Default: the operating system's choice."""
    window: Size = 256 << 10
    """Bytes held for a peer that reads slowly before the other peer is no longer read."""


class Cluster(Section):
    refresh: Duration = lasting("30s", gt=0)
    """How often the sidecar itself asks which brokers there are."""
    forget_after: Duration = lasting("2m")
    """How long after a broker has left the cluster its listener stays open."""


class Admin(Section):
    listen: BindableAddress | None = None
    """Where /metrics, /livez and /readyz answer. Default: 127.0.0.1:9190, or a free port where that one is taken."""


class Log(Section):
    level: Level = "info"
    """The least severe lines that are written."""


class Policy(Section):
    """A policy that topics name in their `policy`. Keys beside these are the policy's own settings."""

    model_config = ConfigDict(extra="allow")

    type: str | None = None
    """A built-in's or plug-in's name, or `module:Class`. Default: the name under which it stands here."""
    class_path: str | None = None
    """Folders, zips and wheels, separated by `:`, where the class is looked for first (KIP-940)."""
    on_error: Literal["closed", "open"] = "closed"
    """Whether a batch is refused or let pass when the policy itself fails."""

    @property
    def settings(self) -> dict[str, Any]:
        """The policy's own settings."""
        return dict(self.__pydantic_extra__ or {})


class Topic(Section):
    """What holds for the topics of a name. Of several entries for a topic the first one counts."""

    name: str
    """Name of the topics; `*` and `?` stand for any characters and any character."""
    policy: str | None = Field(default=None, validation_alias=AliasChoices("policy", "record.validation.policy"))
    """Their `record.validation.policy`: `name` or `name:argument`, separated by commas. Default: no validation."""
    mode: Mode = "enforce"
    """Whether bad records are refused, only counted and sampled, or not looked for."""
    percent: int = Field(default=100, ge=0, le=100)
    """Of the batches, how many `enforce` holds for; the others are treated as in `shadow`."""


class Validation(Section):
    class_name: str | None = None
    """One policy class that gets every topic's string. Kafka (KIP-940): `record.validation.policy.class.name`."""
    class_path: str | None = None
    """Where that class is looked for first. Kafka (KIP-940): `record.validation.policy.class.path`."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """What that class is configured with."""
    on_error: Literal["closed", "open"] = "closed"
    """Whether a batch is refused or let pass when that class itself fails."""
    max_batch: Size = Field(default=100 << 20, ge=1 << 10)
    """Bytes that a batch may have when it is decompressed. Larger ones are refused."""


class Interceptor(Section):
    """One entry of the chain. Keys beside these are the interceptor's own settings."""

    model_config = ConfigDict(extra="allow")

    type: str
    """A built-in's or plug-in's name, or `module:Class`."""
    name: str | None = None
    """What it is called in metrics and log lines. Default: its `type`."""
    topics: list[str] = ["*"]
    """Names of the topics it is for; `*` and `?` stand for any characters and any character."""
    class_path: str | None = None
    """Folders, zips and wheels, separated by `:`, where the class is looked for first."""
    budget: Duration = lasting("100ms", gt=0)
    """How long a call about a thousand records may take; a longer one counts as a failure, but what it gave is used."""
    max_failures: int = Field(default=100, ge=0)
    """After so many failures in a row it is taken out for a while; 0: never."""
    pause: Duration = lasting("1m", gt=0)
    """How long it is taken out."""

    @property
    def settings(self) -> dict[str, Any]:
        """The interceptor's own settings."""
        return dict(self.__pydantic_extra__ or {})


class Interception(Section):
    message_max_bytes: Size = Field(default=1048588, ge=1 << 10)
    """A batch that interceptors would make larger is written as the client sent it. Kafka: `message.max.bytes`."""
    max_commit_metadata: int = Field(default=4096, ge=0)
    """Characters of metadata that an interceptor may commit. Kafka: `offset.metadata.max.bytes`."""
    hold_for: list[str] = []
    """Client ids, with `*` and `?`, of clients that would show control batches to the application."""


class TopicConfigs(Section):
    topic: str | None = Field(default=None, pattern=r"^[a-zA-Z0-9._-]{1,249}$")
    """The compacted topic that keeps what is set with Kafka's own tools. Default: none, they cannot set it."""
    replication_factor: Replicas = -1
    """Replicas of that topic when it is made; -1: the cluster's default."""
