"""The values of the file, of KAFKA_SIDECAR__SECTION__KEY variables over it, and of flags over both, unchecked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from kafka_sidecar.plugins.remedies import VariableText
from kafka_sidecar.proxy.config.document import Document, read_document
from kafka_sidecar.proxy.config.mistakes import ENV_PREFIX, Location, Mistake, Origins, variable_of
from kafka_sidecar.proxy.config.sasl import KAFKA_NAMES as SASL_NAMES
from kafka_sidecar.proxy.config.tls import CLIENT_NAMES, STORE_TYPES
from kafka_sidecar.proxy.config.tls import KAFKA_NAMES as TLS_NAMES

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
