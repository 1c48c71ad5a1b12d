"""The sections of the configuration file: settings, types, defaults. Their docstrings are the schema's descriptions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, AliasChoices, BeforeValidator, ConfigDict, Field, PrivateAttr, model_validator

from kafka_sidecar.codec.apis import APIS
from kafka_sidecar.plugins.settings import FileSettings
from kafka_sidecar.plugins.units import Duration, Size
from kafka_sidecar.proxy.config.dead_letters import TopicDeadLetters, allow_name
from kafka_sidecar.proxy.config.types import (
    ClassPath,
    Level,
    PrincipalPattern,
    Replicas,
    Section,
    SuperUser,
    TopicName,
    TopicPattern,
    duration_field,
)

# YAML reads a bare off as false.
Mode = Annotated[Literal["enforce", "shadow", "off"], BeforeValidator(lambda mode: "off" if mode is False else mode)]
ConsumeAction = Annotated[Literal["off", "hide", "mark"], BeforeValidator(lambda one: "off" if one is False else one)]
OperationName = Literal[
    "all", "read", "write", "create", "delete", "alter", "describe", "describe_configs", "alter_configs",
    "cluster_action", "idempotent_write", "two_phase_commit",
]  # fmt: skip


_API_NAMES = frozenset(api.name for api in APIS.values())


class Nodes(Section):
    advertised_host: str | None = None
    """Host that responses name for every broker. Default: the host of `listen`."""
    first_port: int | None = Field(default=None, ge=1, le=65535)
    """Node N listens at this port plus N. Default: the port of `listen` plus 1."""
    ports: int = Field(default=100, ge=1, le=65535)
    """Size of the port range that begins at `first_port`; a node id outside gets a port of this range too."""
    state_file: Path | None = None
    """File that stores the addresses of brokers across restarts; needed only if brokers require SASL. Default: none."""


class Connections(Section):
    broker_wait: Duration = duration_field("10s")
    """For how long a client waits, and the sidecar retries, while no broker can be reached."""
    connect_timeout: Duration = duration_field("5s", gt=0)
    """Time limit of one attempt to connect to a broker."""
    drain_timeout: Duration = duration_field("30s")
    """For how long open connections are served after SIGTERM."""
    exit_when_unused: Duration | None = Field(default=None, gt=0)
    """End, as after SIGTERM, once clients have been connected and none is for this long. Default: never."""
    frame_timeout: Duration = duration_field("30s", gt=0)
    """Time limit for the next byte of a request or response that has begun."""
    max_age: Duration | None = Field(default=None, gt=0)
    """An older connection is ended between two requests, so that clients spread over gateways. Default: never."""
    max_buffered: Size | None = Field(default=None, ge=1 << 20)
    """Maximum of all requests and responses that are buffered whole, together. Kafka: `queued.max.request.bytes`.
    Default: `256MiB`, or half of what the container's memory limit leaves if that is less."""
    max_connections: int | None = Field(default=None, ge=1)
    """Maximum of client connections. Kafka: `max.connections`. Default: what the limit of open files has room for."""
    max_connections_per_ip: int | None = Field(default=None, ge=1)
    """Maximum of client connections from one address. Kafka: `max.connections.per.ip`. Default: none of its own."""
    max_frame: Size = Field(default=100 << 20, ge=1 << 10)
    """Maximum size of a request, and of a response that is buffered whole. Kafka: `socket.request.max.bytes`."""
    max_idle: Duration = duration_field("10m", gt=0)
    """A connection on which nothing was sent for this long is closed. Kafka: `connections.max.idle.ms`."""
    recorded_requests: int = Field(default=16, ge=0, le=1000)
    """Requests of each connection whose headers are recorded for the admin port, with those of their responses."""
    source_address: str | None = None
    """Local address for connections to brokers. Default: the operating system's choice."""
    window: Size = 256 << 10
    """Bytes buffered for a slow peer before reading from the other peer is paused."""


class Threads(Section):
    """Threads validate and intercept large batches, so that these do not delay other connections."""

    count: int = Field(default=2, ge=1, le=64)
    """Number of threads for large batches; one more is kept for small ones."""
    max_wait: Duration = duration_field("4s", gt=0)
    """For how long the large batches of a request may wait for a thread; then the time limit counts as reached."""


class Cluster(Section):
    refresh: Duration = duration_field("30s", gt=0)
    """Interval of the sidecar's own metadata requests."""
    forget_after: Duration = duration_field("2m")
    """For how long the listener of a broker stays open after the broker has left the cluster."""


class Log(Section):
    level: Level = "info"
    """The lowest level that is written."""
    format: Literal["auto", "json", "text"] = "auto"
    """JSON lines, or text for people. Auto: text if standard output is a terminal."""
    max_rate: int = Field(default=100, ge=1)
    """Lines a second, on average; errors have a limit of their own, for each place in the code."""


class Policy(Section):
    """A policy that topics use in their `policy`. Other keys are the policy's own settings."""

    model_config = ConfigDict(extra="allow")

    type: str | None = None
    """Name of a built-in or plug-in, or `module:Class`. Default: the key of this entry."""
    class_path: ClassPath | None = None
    """Folders, zips and wheels, separated by `:`, searched first for the class (KIP-940). Relative to this file."""
    on_error: Literal["closed", "open"] = "closed"
    """Whether a batch is rejected or allowed if the policy itself fails."""
    _folder: Path = PrivateAttr(default=Path())  # of the configuration file

    @property
    def settings(self) -> dict[str, Any]:
        """The policy's own settings."""
        return self.settings_with({})

    def settings_with(self, registries: Mapping[str, Any]) -> FileSettings:
        """The same, which may name these schema registries."""
        return FileSettings(self.__pydantic_extra__ or {}, self._folder, registries)

    def model_post_init(self, context: Any, /) -> None:
        self._folder = (context or {}).get("folder", Path())


class Consume(Section):
    """What consumers get of records that were stored although a policy rejects them."""

    action: ConsumeAction = "off"
    """Whether such a record is hidden, gets a header, or is not looked for."""
    policy: str | None = Field(default=None, min_length=1)
    """The policy of fetched records, as `topics.policy` is that of records that are produced. Default: the same."""
    header: str = Field(default="kafka_sidecar.invalid", min_length=1, max_length=249)
    """Name of the header that marked records get; its value is `policy/reason`."""

    @model_validator(mode="before")
    @classmethod
    def _action_alone(cls, given: Any) -> Any:
        return {"action": given} if isinstance(given, str | bool) else given


def _allow_action(schema: dict[str, Any]) -> None:
    """In the schema, the action alone."""
    actions = {"enum": ["off", "hide", "mark", False]}  # YAML's off is false
    schema["anyOf"] = [actions, {"$ref": schema.pop("$ref")}]


class Topic(Section):
    """The validation of the topics that match a name. The first matching entry applies."""

    name: TopicPattern
    """Name of the topics; `*` matches any characters, `?` any one character."""
    policy: str | None = Field(
        default=None, min_length=1, validation_alias=AliasChoices("policy", "record.validation.policy")
    )
    """Their `record.validation.policy`: `name` or `name:argument`, separated by commas. Default: no validation."""
    mode: Mode = "enforce"
    """Whether invalid records are rejected, only counted and sampled, or not validated at all."""
    percent: int = Field(default=100, ge=0, le=100)
    """The percentage of batches to which `enforce` applies; the others are treated as in `shadow`."""
    dead_letters: TopicDeadLetters | None = Field(default=None, json_schema_extra=allow_name)
    """Where rejected records go: the name of a topic, or a mapping. Default: nowhere."""
    consume: Consume = Field(default=Consume(), json_schema_extra=_allow_action)
    """What consumers get of stored records that a policy rejects: `off`, `hide`, `mark`, or settings."""


class Validation(Section):
    class_name: str | None = None
    """One policy class for all topics, given their strings. Kafka (KIP-940): `record.validation.policy.class.name`."""
    class_path: ClassPath | None = None
    """Searched first for that class. Kafka (KIP-940): `record.validation.policy.class.path`."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """Settings of that class."""
    on_error: Literal["closed", "open"] = "closed"
    """Whether a batch is rejected or allowed if that class itself fails."""
    max_batch: Size = Field(default=100 << 20, ge=1 << 10)
    """Maximum decompressed size of a batch. Larger ones are rejected."""
    timeout: Duration = duration_field("10s", gt=0)
    """Time limit for the batches of one request that threads validate. After that, they are rejected for now."""


class Limits(Section):
    """Limits of requests that policies or interceptors look into."""

    max_partitions: int = Field(default=10_000, ge=1)
    """Maximum number of partitions in a request, and of topics."""
    max_records: int = Field(default=1_000_000, ge=1)
    """Maximum number of records in a batch. Larger ones are treated like those over `validation.max_batch`."""
    max_record_errors: int = Field(default=1000, ge=0)
    """Record errors in a response; each further rejected batch has only its first one, and their number."""


class Interceptor(Section):
    """One entry of the chain: a mapping, or just its type. Other keys are the interceptor's own settings."""

    model_config = ConfigDict(extra="allow")

    @model_validator(mode="before")
    @classmethod
    def _type_alone(cls, values: Any) -> Any:
        return {"type": values} if isinstance(values, str) else values

    type: str
    """Name of a built-in or plug-in, or `module:Class`."""
    name: str | None = None
    """Its name in metrics and log lines. Default: its `type`."""
    topics: list[TopicPattern] = ["*"]  # noqa: RUF012 - pydantic copies it
    """Names of the topics it applies to; `*` matches any characters, `?` any one character."""
    class_path: ClassPath | None = None
    """Folders, zips and wheels, separated by `:`, that are searched first for the class. Relative to this file."""
    budget: Duration = duration_field("100ms", gt=0)
    """Time limit of a call for a thousand records; a longer one counts as a failure, but its result is used."""
    max_failures: int = Field(default=100, ge=0)
    """Number of consecutive failures after which it is disabled for `pause`; 0: never."""
    pause: Duration = duration_field("1m", gt=0)
    """For how long it is disabled."""
    _folder: Path = PrivateAttr(default=Path())  # of the configuration file

    @property
    def settings(self) -> dict[str, Any]:
        """The interceptor's own settings."""
        return self.settings_with({})

    def settings_with(self, registries: Mapping[str, Any]) -> FileSettings:
        """The same, which may name these schema registries."""
        return FileSettings(self.__pydantic_extra__ or {}, self._folder, registries)

    def model_post_init(self, context: Any, /) -> None:
        self._folder = (context or {}).get("folder", Path())


def _split_names(value: object) -> object:
    """Kafka's lists are text with commas."""
    return [name.strip() for name in value.split(",") if name.strip()] if isinstance(value, str) else value


def _allow_names(schema: dict[str, Any]) -> None:
    one: dict[str, Any] = {"type": "string"}
    schema["anyOf"] = [one, {"type": schema.pop("type"), "items": {"anyOf": [one, schema.pop("items")]}}]


Interceptors = Annotated[list[Interceptor], BeforeValidator(_split_names), Field(json_schema_extra=_allow_names)]


class Interception(Section):
    timeout: Duration = duration_field("10s", gt=0)
    """Time limit for the batches of one request or response that threads intercept."""
    message_max_bytes: Size = Field(default=1048588, ge=1 << 10)
    """A batch that would be larger after the change is forwarded unchanged. Kafka: `message.max.bytes`."""
    max_commit_metadata: int = Field(default=4096, ge=0)
    """Maximum length of the metadata that an interceptor commits. Kafka: `offset.metadata.max.bytes`."""
    unreadable: Literal["hide", "fail"] = "hide"
    """Batches that cannot be intercepted, where something is hidden: dropped, or an error where they begin."""
    hold_for: list[str] = []  # noqa: RUF012 - pydantic copies it
    """Client ids, with `*` and `?`, of clients that would deliver control batches to the application."""


class TopicConfigs(Section):
    topic: TopicName | None = None
    """The compacted topic that stores what is set with Kafka's own tools. Default: none, they cannot set it."""
    replication_factor: Replicas = -1
    """Replication factor with which that topic is created; -1: the cluster's default."""
    schema_policy: str | None = Field(default=None, min_length=1)
    """Name of a policy `schema`, for topics with `confluent.value.schema.validation`. Default: none can have it."""


def _known(name: str) -> str:
    if name not in _API_NAMES:
        raise ValueError(f"unknown API {name}: use the names of Kafka's protocol, such as DeleteTopics")
    return name


ApiName = Annotated[str, Field(json_schema_extra={"enum": sorted(_API_NAMES)}), AfterValidator(_known)]


class AclRule(Section):
    """One rule, as one of Kafka's ACLs."""

    principals: list[PrincipalPattern] = Field(default=["User:*"], min_length=1)
    """Who it is for, with `*` and `?`; a client without a login is `User:ANONYMOUS`.
    One that has logged in with a name that only the broker knows is `Unknown:login`: no pattern allows it anything."""
    permission: Literal["allow", "deny"] = "allow"
    """Whether they may. A deny wins over every allow."""
    operations: list[OperationName] = Field(default=["all"], min_length=1)
    """What: Kafka's operations. `read`, `write`, `delete` and `alter` allow `describe` too."""
    topics: list[TopicPattern] = []  # noqa: RUF012 - pydantic copies it
    """With which topics, with `*` and `?`."""
    groups: list[str] = []  # noqa: RUF012
    """With which consumer groups, with `*` and `?`."""
    transactional_ids: list[str] = []  # noqa: RUF012
    """With which transactional ids, with `*` and `?`."""
    cluster: bool = False
    """With the cluster as a whole: its configs, quotas, ACLs, users, replicas. Kafka: `--cluster`."""
    apis: list[ApiName] = []  # noqa: RUF012
    """Only in requests of these APIs, such as `DeleteTopics`. Default: of all."""

    @model_validator(mode="after")
    def _check(self) -> AclRule:
        if not (self.topics or self.groups or self.transactional_ids or self.cluster):
            raise ValueError(
                'topics, groups, transactional_ids and cluster are missing: name one, such as topics: ["orders-*"]'
            )
        return self


class Authorization(Section):
    rules: list[AclRule] = []  # noqa: RUF012
    """Who may do what. Default: everyone everything, as far as the brokers allow it."""
    default: Literal["allow", "deny"] = "allow"
    """What applies where no rule names the topic, group, transactional id or cluster.
    Kafka: `allow.everyone.if.no.acl.found`."""
    super_users: list[SuperUser] = []  # noqa: RUF012
    """Principals that may do everything. Kafka: `super.users`."""

    @property
    def is_set(self) -> bool:
        return bool(self.rules) or self.default == "deny"


class Otlp(Section):
    """Needs `pip install '.[otel]'`."""

    endpoint: str | None = Field(default=None, pattern=r"^https?://\S+$")
    """URL of a collector, such as `http://collector:4318`: metrics and spans are sent to it by OTLP over HTTP."""
    headers: dict[str, str] = Field(default_factory=dict)
    """Headers of these requests."""
    interval: Duration = duration_field("1m", gt=0)
    """Interval at which metrics are sent."""
    sample: float = Field(default=0, ge=0, le=1)
    """The share of requests of which a span is sent; 0: no spans."""
    service_name: str = "kafka-sidecar"
    """The service that metrics and spans belong to."""


class Reconcile(Section):
    path: str = "kafka-sidecar-audit"
    """Folder of the tables and of the progress of `reconcile`: a path, or a URI that Spark can write to."""
    lateness: Duration = duration_field("30m", gt=0)
    """For how long missing audit events are waited for. After that, what they counted is unknown."""
    clock_skew: Duration = duration_field("1m")
    """How far the clocks of producers, brokers and sidecars may differ."""
    target: float = Field(default=100, ge=0, le=100)
    """The percentage of records that must arrive; below it there is an alert."""
    retention: Duration = duration_field("14d", gt=0)
    """For how long audit events are kept. The rows of older ones stay, and are not computed again."""
    max_events: int = Field(default=500_000, ge=1)
    """Maximum number of audit events that are read at a time."""
    compacted_topics: list[str] = Field(default_factory=list)
    """Names of compacted topics, also with `*` and `?`. Brokers that the events are read from are asked for theirs."""


class Pipeline(Section):
    master: str | None = None
    """Spark's `spark.master`. Under `spark-submit` its own applies. Default: `local[*]`."""
    jars: Path | None = None
    """Folder of the jars of Spark's Kafka connector. Default: kafka-sidecar/spark-jars in the user's cache."""
    spark: dict[str, str] = Field(default_factory=dict)
    """Further settings of Spark, such as `spark.driver.memory`."""
    kafka: dict[str, str] = Field(default_factory=dict)
    """Settings of Spark's Kafka clients, such as `security.protocol`."""
    reconcile: Reconcile = Field(default_factory=Reconcile)


class Tap(Section):
    enabled: bool = True
    """Whether the admin port serves `/tap`, which `kafka-sidecar tap` reads. Turned off, it ends open taps."""
    allow_keys: bool = False
    """Whether a tap may show the keys of records, with `--show-keys`; otherwise only hashes of them."""
    allow_values: bool = False
    """Whether a tap may show the values of records and of their headers, with `--show-values`."""
    max_open: int = Field(default=4, ge=1, le=64)
    """How many taps may be open at a time."""
    max_rate: int = Field(default=100, ge=1, le=10_000)
    """Lines a second of a tap, of all workers together; those of five seconds may come at once. More are
    skipped, and counted."""
