"""The configuration: one YAML file, KAFKA_SIDECAR__SECTION__KEY variables over it, command-line flags over both.

All that is invalid in it is a ConfigError: one line for each mistake.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, Field, PrivateAttr, ValidationError, model_validator

from kafka_sidecar.proxy.config.audit import Audit
from kafka_sidecar.proxy.config.dead_letters import DeadLetters
from kafka_sidecar.proxy.config.large_messages import LargeMessages
from kafka_sidecar.proxy.config.mistakes import ConfigError, Location, Mistake, Origins, explain, find_dead_entries
from kafka_sidecar.proxy.config.producers import ProducerHabits
from kafka_sidecar.proxy.config.rate_limits import RateLimits
from kafka_sidecar.proxy.config.registries import RegistryName, SchemaRegistry
from kafka_sidecar.proxy.config.sasl import BrokerSasl, ClientSasl, PrincipalLogin
from kafka_sidecar.proxy.config.sections import (
    Authorization,
    Cluster,
    Connections,
    Interception,
    Interceptors,
    Limits,
    Log,
    Nodes,
    Otlp,
    Pipeline,
    Policy,
    Tap,
    Threads,
    Topic,
    TopicConfigs,
    Validation,
)  # fmt: skip
from kafka_sidecar.proxy.config.sources import Sources
from kafka_sidecar.proxy.config.tls import AdminTls, BrokerTls, ClientTls, File
from kafka_sidecar.proxy.config.topic_guards import TopicGuard
from kafka_sidecar.proxy.config.types import MAX_PORT, Address, Addresses, BindableAddress, Section, host_port
from kafka_sidecar.proxy.config.workers import Place, Workers, count_workers


class Clients(Section):
    tls: ClientTls = Field(default_factory=ClientTls)
    sasl: ClientSasl = Field(default_factory=ClientSasl)

    @property
    def uses_tls(self) -> bool:
        return self.tls.is_used


class Brokers(Section):
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    """How brokers are connected to; with `SASL_*` the sidecar logs in. Kafka: `security.protocol`."""
    tls: BrokerTls = Field(default_factory=BrokerTls)
    sasl: BrokerSasl = Field(default_factory=BrokerSasl)
    logins: list[PrincipalLogin] = []  # noqa: RUF012 - pydantic copies it
    """Users of the brokers for clients that the sidecar knows; all others are the user of `sasl`."""

    @model_validator(mode="after")
    def _check_protocol(self) -> Brokers:
        if self.sasl.mechanism is not None and not self.uses_sasl:
            raise ValueError(
                "sasl is set, but not used: set security_protocol to SASL_PLAINTEXT or SASL_SSL, or remove sasl"
            )
        if self.sasl.mechanism is None and self.uses_sasl:
            without = self.security_protocol.replace("SASL_PLAINTEXT", "PLAINTEXT").removeprefix("SASL_")
            raise ValueError(
                f"security_protocol is {self.security_protocol}, but sasl is not set: set sasl.mechanism and its "
                f"credentials, or write {without} where clients log in themselves"
            )
        if self.logins and not self.uses_sasl:
            raise ValueError(
                "logins is set, but not used: set security_protocol to SASL_PLAINTEXT or SASL_SSL, and sasl to the "
                "sidecar's own login, or remove logins"
            )
        return self

    @property
    def uses_tls(self) -> bool:
        return self.security_protocol.endswith("SSL")

    @property
    def uses_sasl(self) -> bool:
        """Whether the sidecar logs in."""
        return self.security_protocol.startswith("SASL")


class Admin(Section):
    listen: BindableAddress | None = None
    """Address of metrics, probes and pages for operators. Default: 127.0.0.1:9190, or a free port if it is in use."""
    allowed_hosts: list[str] = Field(default_factory=list)
    """Further names by which they may be requested, with `*` and `?`."""
    tls: AdminTls = Field(default_factory=AdminTls)
    """TLS of the admin port: with `certificate` it accepts nothing else."""
    token_file: File | None = None
    """File with a token that requests need, but for `/livez` and `/readyz`: `Authorization: Bearer TOKEN`."""
    page: bool = True
    """Whether a browser finds a page for people at `/`. Needs a restart."""


ROOM_IN_FRAME = 64 << 10  # for what a request has beside a message
WILDCARDS = ("0.0.0.0", "::", "[::]", "")
LOOPBACK = ("127.0.0.1", "localhost")


class Config(Section):
    bootstrap_servers: Addresses
    """The brokers, as for any Kafka client; if one is down, the next one is tried."""
    listen: Address = "127.0.0.1:19092"
    """Address of the bootstrap listener: the clients' `bootstrap.servers`."""
    workers: Workers = 1
    """Processes that serve clients, each on a CPU; `auto`: as many as the sidecar may use."""
    nodes: Nodes = Field(default_factory=Nodes)
    connections: Connections = Field(default_factory=Connections)
    threads: Threads = Field(default_factory=Threads)
    clients: Clients = Field(default_factory=Clients)
    brokers: Brokers = Field(default_factory=Brokers)
    authorization: Authorization = Field(default_factory=Authorization)
    cluster: Cluster = Field(default_factory=Cluster)
    admin: Admin = Field(default_factory=Admin)
    tap: Tap = Field(default_factory=Tap)
    log: Log = Field(default_factory=Log)
    schema_registries: dict[RegistryName, SchemaRegistry] = Field(default_factory=dict)
    """Schema registries, by the names that policies and interceptors use."""
    rate_limits: RateLimits = Field(default_factory=list)
    """How much clients may produce, consume and ask for in a second."""
    policies: dict[str, Policy] = Field(default_factory=dict)
    """Policies, by the names that topics use."""
    topics: list[Topic] = Field(default_factory=list)
    """The validation of topics."""
    producers: list[ProducerHabits] = Field(default_factory=list)
    """How producers of topics must send."""
    validation: Validation = Field(default_factory=Validation)
    dead_letters: DeadLetters = Field(default_factory=DeadLetters)
    topic_configs: TopicConfigs = Field(default_factory=TopicConfigs)
    topic_guards: list[TopicGuard] = Field(default_factory=list)
    """What clients may ask for when they create, alter and delete topics."""
    interceptors: Interceptors = Field(default_factory=list)
    """The chain of interceptors, in this order. Kafka (KIP-42): `interceptor.classes`."""
    limits: Limits = Field(default_factory=Limits)
    interception: Interception = Field(default_factory=Interception)
    large_messages: LargeMessages = Field(default_factory=LargeMessages)
    audit: Audit = Field(default_factory=Audit)
    otlp: Otlp = Field(default_factory=Otlp)
    pipeline: Pipeline = Field(default_factory=Pipeline)

    _origins: Origins = PrivateAttr(default=Origins(""))
    _place: Place | None = PrivateAttr(default=None)  # of the worker to which this configuration was given

    @model_validator(mode="after")
    def _check_advertised_host(self) -> Config:
        if self.advertised_host in WILDCARDS:
            raise ValueError(
                f"no client can connect to {self.advertised_host!r}: set nodes.advertised_host to the host they use"
            )
        return self

    @model_validator(mode="after")
    def _check_node_ports(self) -> Config:
        ports, count = self._node_ports, self.worker_count
        of_all = f" of {count} workers" if count > 1 else ""
        if ports[-1] > MAX_PORT:
            settings = "nodes.first_port, nodes.ports or workers" if count > 1 else "nodes.first_port or nodes.ports"
            raise ValueError(f"node ports {ports[0]} to {ports[-1]}{of_all} end above {MAX_PORT}: lower {settings}")
        others = {"listen": self.listen, "admin.listen": self.admin.listen}
        inside = [name for name, address in others.items() if address and host_port(address)[1] in ports]
        if inside and count > 1:
            raise ValueError(
                f"node ports {ports[0]} to {ports[-1]}{of_all} contain the port of {inside[0]}: move nodes.first_port, "
                f"or lower nodes.ports or workers"
            )
        return self

    @model_validator(mode="after")
    def _check_tap(self) -> Config:
        address = self.admin.listen
        if address is None or host_port(address)[0] in (*LOOPBACK, "::1") or self.admin.token_file is not None:
            return self
        allowed = [name for name in ("allow_keys", "allow_values") if getattr(self.tap, name)]
        if allowed:
            raise ValueError(
                f"tap.{allowed[0]} shows records to all who reach admin.listen {address}: set admin.token_file, let "
                f"admin.listen be on 127.0.0.1, or remove tap.{allowed[0]}"
            )
        return self

    @model_validator(mode="after")
    def _check_exit_when_unused(self) -> Config:
        if self.connections.exit_when_unused is not None and self.worker_count > 1:
            raise ValueError("connections.exit_when_unused is for the sidecar of one application: set workers to 1")
        return self

    @model_validator(mode="after")
    def _check_logins(self) -> Config:
        clients = self.clients
        if self.brokers.logins and not clients.sasl.mechanisms and clients.tls.client_certificates == "none":
            raise ValueError(
                "brokers.logins is set, but clients have no principals: set clients.sasl or "
                "clients.tls.client_certificates"
            )
        return self

    @model_validator(mode="after")
    def _check_max_message(self) -> Config:
        largest = max((topic.max_message for topic in self.large_messages.topics if topic.enabled), default=None)
        if largest is not None and largest + ROOM_IN_FRAME > self.connections.max_frame:
            raise ValueError(
                f"connections.max_frame {self.connections.max_frame} has no room for a message of {largest} bytes, the "
                f"max_message of large_messages.topics: set it to {largest + ROOM_IN_FRAME} or more"
            )
        return self

    @property
    def advertised_host(self) -> str:
        return self.nodes.advertised_host or host_port(self.listen)[0]

    @property
    def uses_validation(self) -> bool:
        """Whether any topic may have a policy."""
        return bool(self.topics or self.policies or self.validation.class_name or self.topic_configs.topic)

    @property
    def uses_dead_letters(self) -> bool:
        """Whether any topic has a dead letter topic."""
        return any(topic.dead_letters is not None for topic in self.topics)

    @property
    def worker_count(self) -> int:
        return self._place.count if self._place is not None else count_workers(self.workers)

    @property
    def process_count(self) -> int:
        """The workers and their supervisor, or the only process."""
        return self.worker_count + 1 if self.worker_count > 1 else 1

    @property
    def worker(self) -> Place:
        """The worker to which this configuration was given; without workers the only process."""
        return self._place or Place()

    def for_worker(self, place: Place) -> Config:
        """The same configuration, given to a worker."""
        given = self.model_copy()
        given._place = place
        return given

    def share(self, whole: int) -> int:
        """What a worker may use of something that all workers have together."""
        return max(1, whole // self.worker.count)

    def own_name(self, name: str) -> str:
        """A name for this worker, where that of the sidecar would be taken for another worker."""
        return name if self.worker.count == 1 else f"{name}/worker-{self.worker.number}"

    def own_file(self, path: Path | None) -> Path | None:
        """A file of this worker: two may not write the same. The first worker's is the one that is configured."""
        if path is None or self.worker.number == 1:
            return path
        return path.with_name(f"{path.name}.worker-{self.worker.number}")

    @property
    def first_node_port(self) -> int:
        """Of this worker."""
        return self._node_ports[0] + (self.worker.number - 1) * self.nodes.ports

    @property
    def own_ports(self) -> Collection[int]:
        """The ports for clients: that of `listen`, and the ranges of all workers for brokers."""
        return {host_port(self.listen)[1], *self._node_ports}

    @property
    def _node_ports(self) -> range:
        """Of all workers."""
        first = self.nodes.first_port or host_port(self.listen)[1] + 1
        return range(first, first + self.nodes.ports * self.worker_count)

    def is_itself(self, server: str) -> str:
        """What is wrong with a bootstrap server that is one of the sidecar's listeners."""
        ports = self._node_ports
        return (
            f"{server} is this sidecar itself: it listens at port {host_port(self.listen)[1]} and, for brokers, "
            f"{ports[0]} to {ports[-1]}; name brokers, or choose another listen"
        )

    def error(self, mistakes: Iterable[Mistake]) -> ConfigError:
        """Mistakes that were found later, when policies and interceptors were loaded."""
        return self._origins.error(mistakes)


# What names code: its mistakes are found even if other sections are invalid.
PLUG_IN_SECTIONS = (
    "schema_registries", "policies", "topics", "validation", "interceptors", "interception", "large_messages", "audit",
    "dead_letters", "topic_guards", "producers",
)  # fmt: skip
PLACEHOLDER = {"bootstrap_servers": "placeholder:1"}


def load(
    path: Path | None,
    environment: Mapping[str, str],
    flags: Mapping[str, object],
    find_more: Callable[[Config], Iterable[Mistake]] = lambda config: (),
) -> Config:
    """The configuration of a file, variables and flags ("section.key": value).

    Raises:
        ConfigError: it is invalid; ``find_more`` then adds what else is wrong with its policies and interceptors.
    """
    sources = Sources(path)
    sources.add_variables(environment, settings())
    sources.add_flags(flags)
    config, found = _read(sources.values, path)
    mistakes = [*sources.mistakes, *found]
    if config is not None and not mistakes:
        config._origins = sources.origins
        return config
    if config is None:
        config, more = _read(_valid_sections(sources.values, mistakes, in_entries=True), path)
        if config is None:  # what is left of an entry is not valid without what is not
            config, more = _read(_valid_sections(sources.values, mistakes, in_entries=False), path)
        known = {one.location[:2] for one in mistakes}  # entries that are replaced, and may have more
        mistakes += [one for one in more if one.location[:1] != ("topics",) or one.location[:2] not in known]
    raise sources.origins.error([*mistakes, *(find_more(config) if config is not None else ())])


def settings(section: type[BaseModel] = Config, at: Location = ()) -> Iterator[Location]:
    """Where each setting is, without those of entries of lists and mappings."""
    for name, field in section.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from settings(field.annotation, (*at, name))
        else:
            yield (*at, name)


def _read(values: Mapping[str, Any], path: Path | None) -> tuple[Config | None, list[Mistake]]:
    """The settings, None if they cannot be read, and what is wrong with them."""
    try:
        config = Config.model_validate(values, context={"folder": path.parent if path else Path()})
    except ValidationError as error:
        return None, list(explain(error, Config))
    return config, [*find_dead_entries([topic.name for topic in config.topics]), *_find_own_listeners(config)]


def _find_own_listeners(config: Config) -> Iterator[Mistake]:
    """Bootstrap servers that are listeners of this sidecar, whatever names resolve to: a start looks at that too."""
    bound = host_port(config.listen)[0]
    own = LOOPBACK if bound in (*WILDCARDS, *LOOPBACK) else (bound,)
    for server in config.bootstrap_servers:
        host, port = host_port(server)
        if host in own and port in config.own_ports:
            yield Mistake(("bootstrap_servers",), config.is_itself(server))


def _valid_sections(values: Mapping[str, Any], mistakes: Sequence[Mistake], *, in_entries: bool) -> dict[str, Any]:
    """The sections with code that have no mistake so far, and what is valid in ``topics:``.

    Args:
        in_entries: also what is valid in entries that have mistakes, of policies and interceptors too.
    """
    wrong: dict[object, list[Location]] = {}
    for one in mistakes:
        if one.location:
            wrong.setdefault(one.location[0], []).append(one.location[1:])
    valid = {name: values[name] for name in PLUG_IN_SECTIONS if name in values and name not in wrong}
    for name in ("policies", "interceptors", "topics") if in_entries else ("topics",):
        if name in wrong and (entries := _valid_entries(name, values.get(name), wrong[name], in_entries)) is not None:
            valid[name] = entries
    if any(name in wrong and name not in valid for name in ("policies", "validation")):
        valid.pop("topics", None)  # they may name what is invalid
    return PLACEHOLDER | valid


def _valid_entries(section: str, entries: Any, wrong: Sequence[Location], in_entries: bool) -> Any:
    """The entries of a section, of those with mistakes what is left without the keys that are wrong.

    None if what is left does not say what it is for.
    """
    if () in wrong or not isinstance(entries, list | dict):
        return None
    given: Any = entries  # by names or by numbers
    valid = given.copy()
    numbers: Collection[Any] = valid if isinstance(valid, dict) else range(len(valid))
    for index in {at[0] for at in wrong if at[0] in numbers}:  # a variable may name others
        keys = {at[1] if len(at) > 1 else None for at in wrong if at[0] == index}
        keeps = in_entries and None not in keys
        left = {key: value for key, value in given[index].items() if key not in keys} if keeps else {}
        if section == "topics":
            left.setdefault("name", f"entry-{index}")  # the others keep their numbers
        elif not left or keys & {"type", "class_path"}:
            return None
        valid[index] = left
    return valid
