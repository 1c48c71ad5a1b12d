"""The schema registries of a running sidecar: they stay open while they are configured, so that a reload keeps them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.config.mistakes import ConfigError, Mistake
from kafka_sidecar.proxy.config.registries import registries
from kafka_sidecar.proxy.config.sasl import SecretError, read_secret
from kafka_sidecar.proxy.features.feature import Feature, Site
from kafka_sidecar.proxy.telemetry.metrics import Durations, Family, counter, gauge, histogram
from kafka_sidecar.schemas.registry import Registry

NAME = "schema_registry_"
SECRET_FILES = ("password_file", "token_file", "client_secret_file")


class SchemaRegistries(Feature):
    """Those of the current configuration."""

    def __init__(self) -> None:
        self.opened: Mapping[str, Registry] = {}

    def load(self, config: Config) -> Callable[[], None]:
        try:
            return partial(self._apply, dict(registries(config.schema_registries)))
        except ValueError as error:
            raise ConfigError(f"schema_registries: {error}") from error

    def _apply(self, opened: Mapping[str, Registry]) -> None:
        self.opened = opened

    def states(self) -> Mapping[str, Mapping[str, Any]]:
        """How each is, for an operator."""
        return {name: _state(registry) for name, registry in self.opened.items()}

    def state(self) -> Mapping[str, Any]:
        return {"registries": [{"name": name, **state} for name, state in self.states().items()]}

    def families(self) -> Iterable[Family]:
        yield from families_of(list(self.opened.values()))


def families_of(opened: Sequence[Registry]) -> Iterable[Family]:
    requests = {
        (one.settings.name, outcome): count for one in opened for outcome, count in list(one.stats.requests.items())
    }
    yield counter(NAME + "requests", "Requests to schema registries", requests, "registry", "outcome")
    yield histogram(
        NAME + "request_seconds",
        "Time from a request to a schema registry to the end of its response",
        {one.settings.name: Durations(one.stats.durations, one.stats.seconds) for one in opened},
        "registry",
    )
    yield gauge(
        NAME + "reachable",
        "0 while a schema registry does not answer; 1 also before it was asked",
        {one.settings.name: float(one.stats.failure is None) for one in opened},
        "registry",
    )
    yield gauge(
        NAME + "cached_schemas",
        "Schemas that are kept",
        {one.settings.name: one.cached[0] for one in opened},
        "registry",
    )
    yield gauge(
        NAME + "cached_bytes",
        "Memory of these schemas, about",
        {one.settings.name: one.cached[1] for one in opened},
        "registry",
    )
    for name, about, value in (
        ("stale_answers", "Answers that were older than they should be, as the registry did not respond", _stale),
        ("failures", "Questions of policies and interceptors without an answer", _failures),
        ("held_back", "Questions about unknown ids that had to wait or were dropped", lambda one: one.held_back),
    ):
        yield counter(NAME + name, about, {one.settings.name: value(one) for one in opened}, "registry")


def _stale(registry: Registry) -> int:
    return registry.stats.stale


def _failures(registry: Registry) -> int:
    return registry.stats.failures


def _state(registry: Registry) -> Mapping[str, Any]:
    stats, (schemas, size) = registry.stats, registry.cached
    return {
        "state": "failing" if stats.failure else "ok" if stats.was_reached else "not asked yet",
        "failure": stats.failure,
        "urls": list(registry.settings.urls),
        "cached_schemas": schemas,
        "cached_bytes": size,
        "stale_answers": stats.stale,
    }


def feature(site: Site) -> Feature:
    """As `compose.FEATURES` says."""
    return SchemaRegistries()


def find_mistakes(config: Config) -> Iterator[Mistake]:
    """No registry is asked anything."""
    opened = registries(config.schema_registries)
    for name, entry in config.schema_registries.items():
        at = ("schema_registries", name)
        try:
            opened[name]
        except ValueError as error:
            setting, _, text = str(error).partition(": ")
            yield Mistake((*at, setting), text)
        for setting in SECRET_FILES:
            try:
                read_secret(None, getattr(entry, setting), "")
            except SecretError as error:
                yield Mistake((*at, setting), str(error).partition(": ")[2])
