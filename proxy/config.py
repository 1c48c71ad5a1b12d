"""The configuration: one YAML file, KAFKA_SIDECAR__SECTION__KEY variables over it, command-line flags over both.

A wrong key, type or value is a ConfigError: one line that names file, key and remedy.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic.json_schema import WithJsonSchema

ENV_PREFIX = "KAFKA_SIDECAR__"
WILDCARDS = ("0.0.0.0", "::", "[::]", "")


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


def _size(value: object) -> int:
    """Bytes of a size (1048576, "64KiB", "100MiB")."""
    match = _SIZE.fullmatch(str(value)) if isinstance(value, int | str) and not isinstance(value, bool) else None
    if match is None:
        raise ValueError('write a number of bytes or a size such as "64KiB" or "100MiB"')
    return int(match[1]) * _BYTES[match[2]]


def _address(value: object) -> str:
    host_port(value)
    return str(value)


def host_port(value: object) -> tuple[str, int]:
    """Host and port of "host:port" or "[ipv6]:port"; ValueError otherwise."""
    host, colon, port = str(value).rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535 or not host:
        raise ValueError(f'write host:port, such as "127.0.0.1:9092", in place of {str(value)!r}')
    return host.removeprefix("[").removesuffix("]"), int(port)


def _addresses(value: object) -> list[str]:
    items = value.split(",") if isinstance(value, str) else value
    if not isinstance(items, list) or not items:
        raise ValueError('name at least one broker, such as "kafka-1:9092,kafka-2:9092"')
    return [_address(item.strip() if isinstance(item, str) else item) for item in items]


_TEXT = WithJsonSchema({"type": "string"})
Duration = Annotated[float, BeforeValidator(_duration), _TEXT]
Size = Annotated[int, BeforeValidator(_size), WithJsonSchema({"type": ["string", "integer"]})]
Address = Annotated[str, BeforeValidator(_address), _TEXT]
Addresses = Annotated[
    list[str],
    BeforeValidator(_addresses),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
]
Level = Literal["debug", "info", "warning", "error"]


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class Nodes(Section):
    advertised_host: str | None = None
    """Host that clients are told for every broker. Default: the host of `listen`."""
    first_port: int | None = Field(default=None, ge=1, le=65535)
    """Node N listens at this port plus N. Default: the port of `listen` plus 1."""
    ports: int = Field(default=100, ge=1, le=65535)
    """How many ports from `first_port` may be used; a node id outside gets a port of this range too."""


class Connections(Section):
    connect_timeout: Duration = 5.0
    """How long one attempt to reach a broker may take."""
    drain_timeout: Duration = 30.0
    """How long open connections are still served after SIGTERM."""
    max_frame: Size = 100 << 20
    """The largest request, and the largest answer that has to be read whole. Kafka: `socket.request.max.bytes`."""
    source_address: str | None = None
    """Local address from which brokers are reached. Default: the operating system's choice."""
    window: Size = 256 << 10
    """Bytes held for a peer that reads slowly before the other peer is no longer read."""


class Cluster(Section):
    refresh: Duration = 30.0
    """How often the sidecar itself asks which brokers there are."""
    forget_after: Duration = 120.0
    """How long after a broker has left the cluster its listener stays open."""


class Admin(Section):
    listen: Address | None = None
    """Where /metrics, /livez and /readyz answer. Default: 127.0.0.1:9190, or a free port where that one is taken."""


class Log(Section):
    level: Level = "info"
    """The least severe lines that are written."""


class Config(Section):
    bootstrap_servers: Addresses = Field(validation_alias=AliasChoices("bootstrap_servers", "bootstrap.servers"))
    """The brokers, as for any Kafka client; the next one is tried when one is down."""
    listen: Address = "127.0.0.1:9092"
    """Where clients connect first: their `bootstrap.servers`."""
    nodes: Nodes = Nodes()
    connections: Connections = Connections()
    cluster: Cluster = Cluster()
    admin: Admin = Admin()
    log: Log = Log()

    @model_validator(mode="after")
    def _advertised_host_can_be_reached(self) -> Config:
        if self.advertised_host in WILDCARDS:
            raise ValueError(
                f"no client can connect to {self.advertised_host!r}: set nodes.advertised_host to the host they use"
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
            _put(values, key, yaml.safe_load(text) if text else text, name)
            source[key] = f"environment variable {name}"
    for key, value in flags.items():
        if value is not None:
            _put(values, key, value, "command line")
            source[key] = f"flag --{key.split('.')[-1].replace('_', '-')}" if key != "admin.listen" else "flag --admin"
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
    return values


def _put(values: dict[str, Any], key: str, value: object, source: str) -> None:
    *sections, last = key.split(".")
    for section in sections:
        values = values.setdefault(section, {})
        if not isinstance(values, dict):
            raise ConfigError(f"{source}: {section} is not a section")
    values[last] = value


def _explain(error: ValidationError, source: Mapping[str, str]) -> str:
    first = error.errors(include_url=False)[0]
    key = ".".join(str(part) for part in first["loc"] if isinstance(part, str))
    where = source.get(key, source[""])
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
