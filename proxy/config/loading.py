"""The configuration: one YAML file, KAFKA_SIDECAR__SECTION__KEY variables over it, command-line flags over both.

An invalid key, type or value is a ConfigError: one line with file, key and remedy.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel, Field, ValidationError, model_validator

from kafka_sidecar.proxy.config.sections import (
    Admin,
    Cluster,
    Connections,
    Interception,
    Interceptors,
    Log,
    Nodes,
    Policy,
    Section,
    Topic,
    TopicConfigs,
    Validation,
)  # fmt: skip
from kafka_sidecar.proxy.config.types import (
    MAX_PORT,
    Address,
    Addresses,
    host_port,
)

ENV_PREFIX = "KAFKA_SIDECAR__"
WILDCARDS = ("0.0.0.0", "::", "[::]", "")
# Kafka's own names of settings, accepted in the file.
KAFKA_NAMES = {
    "bootstrap.servers": "bootstrap_servers",
    "interceptor.classes": "interceptors",  # KIP-42
    "record.validation.policy.class.name": "validation.class_name",  # KIP-940
    "record.validation.policy.class.path": "validation.class_path",
}
# Flags whose name is not derived from the setting.
FLAGS = {
    "admin.listen": "--admin",
    "connections.source_address": "--broker-source-address",
    "log.level": "--log-level",
}


EXAMPLES = {"topics": "{name: orders}", "policies": "{type: json}", "interceptors": "{type: latency}"}


class ConfigError(Exception):
    """One line for the operator: file, key, remedy."""


class Config(Section):
    bootstrap_servers: Addresses
    """The brokers, as for any Kafka client; if one is down, the next one is tried."""
    listen: Address = "127.0.0.1:19092"
    """Address of the bootstrap listener: the clients' `bootstrap.servers`."""
    nodes: Nodes = Field(default_factory=Nodes)
    connections: Connections = Field(default_factory=Connections)
    cluster: Cluster = Field(default_factory=Cluster)
    admin: Admin = Field(default_factory=Admin)
    log: Log = Field(default_factory=Log)
    policies: dict[str, Policy] = Field(default_factory=dict)
    """Policies, by the names that topics use."""
    topics: list[Topic] = Field(default_factory=list)
    """The validation of topics."""
    validation: Validation = Field(default_factory=Validation)
    topic_configs: TopicConfigs = Field(default_factory=TopicConfigs)
    interceptors: Interceptors = Field(default_factory=list)
    """The chain of interceptors, in this order. Kafka (KIP-42): `interceptor.classes`."""
    interception: Interception = Field(default_factory=Interception)

    @model_validator(mode="after")
    def _check_advertised_host(self) -> Config:
        if self.advertised_host in WILDCARDS:
            raise ValueError(
                f"no client can connect to {self.advertised_host!r}: set nodes.advertised_host to the host they use"
            )
        return self

    @model_validator(mode="after")
    def _check_node_ports(self) -> Config:
        first, last = self.first_node_port, self.first_node_port + self.nodes.ports - 1
        if last > MAX_PORT:
            raise ValueError(
                f"node ports {first} to {last} end above {MAX_PORT}: lower nodes.first_port or nodes.ports"
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
    def first_node_port(self) -> int:
        return self.nodes.first_port or host_port(self.listen)[1] + 1


def load(path: Path | None, environment: Mapping[str, str], flags: Mapping[str, object]) -> Config:
    """The configuration of a file, variables and flags ("section.key": value). Raises ConfigError."""
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
        raise ConfigError(f"{path}: is not YAML: {_yaml_message(error)}") from error
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise ConfigError(f'{path}: must be a mapping of settings, such as "bootstrap_servers: kafka-1:9092"')
    for kafka_name, name in KAFKA_NAMES.items():
        if kafka_name in values:
            if _has(values, name):
                raise ConfigError(f"{path}: {kafka_name} and {name} are the same setting; remove one of them")
            _put(values, name, values.pop(kafka_name), str(path))
    return values


def _yaml_message(error: Exception) -> str:
    return " ".join(str(error).replace('in "<unicode string>", ', "at ").split())


def _has(values: Any, key: str) -> bool:
    for name in key.split("."):
        if not isinstance(values, dict) or name not in values:
            return False
        values = values[name]
    return True


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
    key = _key_of(first["loc"])
    inside = (origin for name, origin in source.items() if name.startswith(key + "."))
    where = source.get(key) or next(inside, source[""])
    match first["type"]:
        case "missing" if "." in key:  # in an entry of a list, which neither a flag nor a variable can set
            remedy = "is missing: set it in the file"
        case "missing":
            flag, variable = key.replace("_", "-"), ENV_PREFIX + key.upper().replace(".", "__")
            remedy = f"{key} is missing: set it in the file, with --{flag} or with {variable}"
            key = ""
        case "model_type":
            example = EXAMPLES.get(str(first["loc"][0]))
            remedy = f"must be a mapping, such as {example}" if example else "must be a mapping of settings"
        case "extra_forbidden":
            remedy = f"is not a setting; {_known_keys(first['loc'])}"
        case _:
            remedy = first["msg"].removeprefix("Value error, ")
    return ": ".join(part for part in (where, key, remedy) if part)


def _key_of(location: tuple[int | str, ...]) -> str:
    parts = (f" (entry {part + 1})" if isinstance(part, int) else f".{part}" for part in location)
    return "".join(parts).removeprefix(".")


def _known_keys(location: tuple[int | str, ...]) -> str:
    section: Any = Config
    for part in location[:-1]:
        if part in section.model_fields:  # neither the name of a policy nor an index
            annotation = section.model_fields[part].annotation
            section = next((kind for kind in (*get_args(annotation), annotation) if _is_section(kind)), section)
    return "known here: " + ", ".join(sorted(section.model_fields))


def _is_section(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)
