"""The configuration: one YAML file, KAFKA_SIDECAR__SECTION__KEY variables over it, command-line flags over both.

A wrong key, type or value is a ConfigError: one line that names file, key and remedy.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic.json_schema import WithJsonSchema

ENV_PREFIX = "KAFKA_SIDECAR__"
WILDCARDS = ("0.0.0.0", "::", "[::]", "")
LAST_PORT = 65535
# Kafka's own names of settings, understood in the file.
KAFKAS_NAMES = {"bootstrap.servers": "bootstrap_servers"}
# Flags that are not called like the setting they set.
FLAGS = {
    "admin.listen": "--admin",
    "connections.source_address": "--broker-source-address",
    "log.level": "--log-level",
}


class ConfigError(Exception):
    """One line for the operator: which file, which key, what to do."""


_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_SIZE = re.compile(r"(\d+)\s*(B|KiB|MiB|GiB)?")
_BYTES = {None: 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def _duration(value: object) -> float:
    """Seconds of a Go duration ("500ms", "1m30s")."""
    parts = _DURATION.findall(value) if isinstance(value, str) else []
    if not parts or "".join(number + unit for number, unit in parts) != value:
        raise ValueError('write a duration with its unit, such as "500ms", "5s" or "1m30s"')
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)


def _lasting(text: str, gt: float | None = None) -> Any:
    """A field whose default is ``text``, in the schema too: there a number would be wrong."""
    return Field(default=_duration(text), json_schema_extra={"default": text}, gt=gt)


def _size(value: object) -> int:
    """Bytes of a size (1048576, "64KiB", "100MiB")."""
    match = _SIZE.fullmatch(str(value)) if isinstance(value, int | str) and not isinstance(value, bool) else None
    if match is None:
        raise ValueError('write a number of bytes or a size such as "64KiB" or "100MiB"')
    return int(match[1]) * _BYTES[match[2]]


_HOST = re.compile(r"[\w.:%-]+")


def host_port(value: object) -> tuple[str, int]:
    """Host and port of "host:port" or "[ipv6]:port"; ValueError otherwise."""
    host, _, port = str(value).rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not port.isdecimal() or int(port) > LAST_PORT or not _HOST.fullmatch(host) or not _can_be_resolved(host):
        raise ValueError(f'write host:port, such as "127.0.0.1:9092", in place of {str(value)!r}')
    return host, int(port)


def _can_be_resolved(host: str) -> bool:
    """Whether the resolver takes the name at all; it raises no OSError for an empty or too long label."""
    try:
        return bool(host.encode("idna"))
    except UnicodeError:
        return False


def _bindable(value: object) -> str:
    host_port(value)
    return str(value)


def _address(value: object) -> str:
    if not host_port(value)[1]:
        raise ValueError(f"write a port from 1 to {LAST_PORT} in place of {str(value)!r}")
    return str(value)


def _addresses(value: object) -> list[str]:
    items = value.split(",") if isinstance(value, str) else value
    if not isinstance(items, list) or not items:
        raise ValueError('name at least one broker, such as "kafka-1:9092,kafka-2:9092"')
    return [_address(item.strip() if isinstance(item, str) else item) for item in items]


_TEXT = WithJsonSchema({"type": "string"})
Duration = Annotated[float, BeforeValidator(_duration), _TEXT]
Size = Annotated[int, BeforeValidator(_size), WithJsonSchema({"type": ["string", "integer"]})]
Address = Annotated[str, BeforeValidator(_address), _TEXT]
BindableAddress = Annotated[str, BeforeValidator(_bindable), _TEXT]  # port 0: any that is free
Addresses = Annotated[
    list[str],
    BeforeValidator(_addresses),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
]
Level = Literal["debug", "info", "warning", "error"]


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
    connect_timeout: Duration = _lasting("5s", gt=0)
    """How long one attempt to reach a broker may take."""
    drain_timeout: Duration = _lasting("30s")
    """How long open connections are still served after SIGTERM."""
    max_frame: Size = Field(default=100 << 20, ge=1 << 10)
    """The largest request, and the largest answer that has to be read whole. Kafka: `socket.request.max.bytes`."""
    source_address: str | None = None
    """Local address from which brokers are reached. Default: the operating system's choice."""
    window: Size = 256 << 10
    """Bytes held for a peer that reads slowly before the other peer is no longer read."""


class Cluster(Section):
    refresh: Duration = _lasting("30s", gt=0)
    """How often the sidecar itself asks which brokers there are."""
    forget_after: Duration = _lasting("2m")
    """How long after a broker has left the cluster its listener stays open."""


class Admin(Section):
    listen: BindableAddress | None = None
    """Where /metrics, /livez and /readyz answer. Default: 127.0.0.1:9190, or a free port where that one is taken."""


class Log(Section):
    level: Level = "info"
    """The least severe lines that are written."""


class Config(Section):
    bootstrap_servers: Addresses
    """The brokers, as for any Kafka client; the next one is tried when one is down."""
    listen: Address = "127.0.0.1:9092"
    """Where clients connect first: their `bootstrap.servers`."""
    nodes: Nodes = Field(default_factory=Nodes)
    connections: Connections = Field(default_factory=Connections)
    cluster: Cluster = Field(default_factory=Cluster)
    admin: Admin = Field(default_factory=Admin)
    log: Log = Field(default_factory=Log)

    @model_validator(mode="after")
    def _advertised_host_can_be_reached(self) -> Config:
        if self.advertised_host in WILDCARDS:
            raise ValueError(
                f"no client can connect to {self.advertised_host!r}: set nodes.advertised_host to the host they use"
            )
        return self

    @model_validator(mode="after")
    def _node_ports_exist(self) -> Config:
        first, last = self.first_node_port, self.first_node_port + self.nodes.ports - 1
        if last > LAST_PORT:
            raise ValueError(
                f"node ports {first} to {last} end above {LAST_PORT}: lower nodes.first_port or nodes.ports"
            )
        return self

    @property
    def advertised_host(self) -> str:
        return self.nodes.advertised_host or host_port(self.listen)[0]

    @property
    def first_node_port(self) -> int:
        return self.nodes.first_port or host_port(self.listen)[1] + 1


def load(path: Path | None, environment: Mapping[str, str], flags: Mapping[str, object]) -> Config:
    """The configuration of a file, variables and flags ("section.key": value); ConfigError names what is wrong."""
    values = _read(path) if path else {}
    source = {"": str(path) if path else "command line"}
    for name, text in sorted(environment.items()):
        if name.startswith(ENV_PREFIX):
            key = name.removeprefix(ENV_PREFIX).lower().replace("__", ".")
            _put(values, key, text, name)
            source[key] = f"environment variable {name}"
    for key, value in flags.items():
        if value is not None:
            _put(values, key, value, "command line")
            source[key] = "flag " + FLAGS.get(key, f"--{key.split('.')[-1].replace('_', '-')}")
    try:
        return Config.model_validate(values)
    except ValidationError as error:
        raise ConfigError(_explain(error, source)) from error


def _read(path: Path) -> dict[str, Any]:
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}; name a readable file with --config") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: is not YAML: {' '.join(str(error).split())}") from error
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise ConfigError(f'{path}: must be a mapping of settings, such as "bootstrap_servers: kafka-1:9092"')
    for kafkas_name, name in KAFKAS_NAMES.items():
        if kafkas_name in values and name not in values:
            values[name] = values.pop(kafkas_name)
    return values


def _put(values: dict[str, Any], key: str, value: object, source: str) -> None:
    *sections, last = key.split(".")
    for section in sections:
        if values.get(section) is None:
            values[section] = {}
        values = values[section]
        if not isinstance(values, dict):
            raise ConfigError(f"{source}: {section} is not a section")
    values[last] = value


def _explain(error: ValidationError, source: Mapping[str, str]) -> str:
    first = error.errors(include_url=False)[0]
    key = ".".join(str(part) for part in first["loc"] if isinstance(part, str))
    inside = (place for name, place in source.items() if name.startswith(key + "."))
    where = source.get(key) or next(inside, source[""])
    match first["type"]:
        case "missing":
            flag, variable = key.replace("_", "-"), ENV_PREFIX + key.upper().replace(".", "__")
            remedy = f"{key} is missing: set it in the file, with --{flag} or with {variable}"
            key = ""
        case "extra_forbidden":
            remedy = f"is not a setting; {_known(first['loc'])}"
        case _:
            remedy = first["msg"].removeprefix("Value error, ")
    return ": ".join(part for part in (where, key, remedy) if part)


def _known(location: tuple[int | str, ...]) -> str:
    section: type[BaseModel] = Config
    for part in location[:-1]:
        annotation = section.model_fields[str(part)].annotation
        assert isinstance(annotation, type)
        assert issubclass(annotation, BaseModel)
        section = annotation
    return "known here: " + ", ".join(sorted(section.model_fields))
