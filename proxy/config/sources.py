"""The values of the file, of KAFKA_SIDECAR__SECTION__KEY variables over it, and of flags over both, unchecked.

A key that is there twice is a mistake: PyYAML keeps the last of two equal keys and drops the first silently, with all
that it enforces; YAML forbids them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from kafka_sidecar.plugins.settings import VariableText
from kafka_sidecar.proxy.config.mistakes import ENV_PREFIX, ConfigError, Location, Mistake, Origins, variable_of
from kafka_sidecar.proxy.config.sasl import KAFKA_NAMES as SASL_NAMES
from kafka_sidecar.proxy.config.tls import CLIENT_NAMES, STORE_TYPES
from kafka_sidecar.proxy.config.tls import KAFKA_NAMES as TLS_NAMES

_MERGE = "tag:yaml.org,2002:merge"  # "<<" may be there several times


@dataclass(frozen=True, slots=True)
class Document:
    """What a file has, before any setting is checked."""

    values: dict[str, Any] = field(default_factory=dict)
    lines: dict[Location, int] = field(default_factory=dict)  # of keys and of entries of lists, from 1
    mistakes: list[Mistake] = field(default_factory=list)


def read_document(path: Path) -> Document:
    """The document of a file. Raises ConfigError if it cannot be read or is not a mapping."""
    try:
        loader = yaml.SafeLoader(path.read_text(encoding="utf-8"))
        root = loader.get_single_node()
        values = None if root is None else loader.construct_document(root)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}; name a readable file with --config") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: is not YAML: {_yaml_message(error)}") from error
    if root is None or values is None:
        return Document()
    if not isinstance(values, dict):
        raise ConfigError(f'{path}: must be a mapping of settings, such as "bootstrap_servers: kafka-1:9092"')
    document = Document(values)
    for location, line, earlier in _keys(root, (), set()):
        if earlier is not None:
            document.mistakes.append(Mistake(location, f"is given twice, first in line {earlier}: remove one of them"))
        document.lines[location] = line
    return document


def _keys(node: yaml.Node, at: Location, seen: set[int]) -> Iterator[tuple[Location, int, int | None]]:
    """Each key or entry below a node: where, its line, and the line of the same key before it, if there is one."""
    if id(node) in seen:  # an alias; it may even contain itself
        return
    seen.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        for index, entry in enumerate(node.value):
            yield (*at, index), entry.start_mark.line + 1, None
            yield from _keys(entry, (*at, index), seen)
    elif isinstance(node, yaml.MappingNode):
        lines: dict[str, int] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if isinstance(key, yaml.ScalarNode) and key.tag != _MERGE:
                yield (*at, key.value), line, lines.get(key.value)
                lines[key.value] = line
                yield from _keys(value, (*at, key.value), seen)


def _yaml_message(error: Exception) -> str:
    message = " ".join(str(error).replace('in "<unicode string>", ', "at ").split())
    return f"{message}; indent with spaces, not with tabs" if r"character '\t'" in message else message


# Kafka's own names of settings, accepted in the file.
KAFKA_NAMES: Mapping[str, Location] = {
    "bootstrap.servers": ("bootstrap_servers",),
    "security.protocol": ("brokers", "security_protocol"),
    **{name: ("brokers", "sasl", setting) for name, setting in SASL_NAMES.items()},
    **{name: ("brokers", "tls", setting) for name, setting in TLS_NAMES.items() if name not in CLIENT_NAMES},
    **{name: ("brokers", "tls", name) for name in STORE_TYPES},
    "interceptor.classes": ("interceptors",),  # KIP-42
    "record.validation.policy.class.name": ("validation", "class_name"),  # KIP-940
    "record.validation.policy.class.path": ("validation", "class_path"),
}
# Flags whose name is not derived from the setting.
FLAGS = {
    "admin.listen": "--admin",
    "connections.source_address": "--broker-source-address",
    "log.format": "--log-format",
    "log.level": "--log-level",
}


class Sources:
    """The values, and where each is from."""

    def __init__(self, path: Path | None) -> None:
        """Raises ConfigError if the file is not YAML."""
        document = read_document(path) if path else Document()
        self.values: dict[str, Any] = document.values
        self.mistakes: list[Mistake] = document.mistakes
        self._others: dict[Location, str] = {}
        self.origins = Origins(str(path) if path else "command line", document.lines, self._others)
        for kafka_name in KAFKA_NAMES.keys() & self.values.keys():
            self._rename(kafka_name, document)

    def _rename(self, kafka_name: str, document: Document) -> None:
        location = KAFKA_NAMES[kafka_name]
        if location in document.lines:
            also = ".".join(location)  # type: ignore[arg-type]
            self.mistakes.append(Mistake((kafka_name,), f"is the same setting as {also}; remove one of them"))
        self._put(location, self.values.pop(kafka_name))
        document.lines[location] = document.lines[kafka_name,]

    def add_variables(self, environment: Mapping[str, str], settings: Iterable[Location]) -> None:
        """Of an environment; one that is nearly the variable of a setting is a mistake, not ignored."""
        for name, text in sorted(environment.items()):
            if name.startswith(ENV_PREFIX):
                location = tuple(name.removeprefix(ENV_PREFIX).lower().split("__"))
                self._others[location] = f"environment variable {name}"
                self._put(location, VariableText(text))
        variables = {variable_of(location) for location in settings}
        for name, meant in _misspelt(environment, variables):
            location = (name,)
            self._others[location] = "environment"
            self.mistakes.append(Mistake(location, f"is not read: did you mean {meant}?"))

    def add_flags(self, flags: Mapping[str, object]) -> None:
        """By "section.key"; those that are None are not set."""
        for setting, value in flags.items():
            if value is not None:
                location = tuple(setting.split("."))
                self._others[location] = "flag " + FLAGS.get(setting, f"--{str(location[-1]).replace('_', '-')}")
                self._put(location, value)

    def _put(self, location: Location, value: object) -> None:
        *sections, last = map(str, location)
        values = self.values
        for section in sections:
            if values.get(section) is None:
                values[section] = {}
            values = values[section]
            if not isinstance(values, dict):
                self.mistakes.append(Mistake(location, f"{section} is not a section"))
                return
        values[last] = value


def _misspelt(environment: Iterable[str], variables: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Variables that differ from those of settings in case and underscores alone, and which is meant.

    Not all others that begin so: Kubernetes sets KAFKA_SIDECAR_SERVICE_HOST and more for a Service of that name.
    """
    exact = {_letters(variable): variable for variable in variables}
    for name in sorted(environment):
        meant = exact.get(_letters(name))
        if meant is not None and meant != name:
            yield name, meant


def _letters(name: str) -> str:
    return re.sub("[_.-]+", "_", name.upper())
