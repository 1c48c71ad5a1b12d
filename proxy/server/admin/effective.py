"""What is in force: of topics, and the configuration with each value as a file would have it, and where it is from.

Secrets are never shown.

values   {"listen": "127.0.0.1:19092", "topics": [{"name": "orders"}]}
sources  {"listen": "default", "topics": [{"name": "sidecar.yaml:3"}]}    of the same shape
"""

from __future__ import annotations

import os
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel, SecretStr

from kafka_sidecar.codec.topic_names import is_topic_name
from kafka_sidecar.codec.wire import NO_ID
from kafka_sidecar.plugins.units import milliseconds, seconds, size
from kafka_sidecar.proxy.config.audit import LI_NAMES
from kafka_sidecar.proxy.config.large_messages import LI_NAMES as LARGE_NAMES
from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.config.mistakes import Location, Origins, format_key
from kafka_sidecar.proxy.config.reload import RELOADED
from kafka_sidecar.proxy.config.sasl import CLIENT_SASL_NAMES
from kafka_sidecar.proxy.config.sasl import KAFKA_NAMES as SASL_NAMES
from kafka_sidecar.proxy.config.tls import KAFKA_NAMES as TLS_NAMES
from kafka_sidecar.proxy.server.server import Server
from kafka_sidecar.proxy.telemetry.readable import hide_secrets

DEFAULT = "default"
SECRET = "***"  # noqa: S105 - in place of one
# On a page: of one list or mapping, and of all. Each takes some 50 to 100 us of the event loop.
MAX_ENTRIES, MAX_ENTRIES_IN_ALL = 100, 250
SECRET_MAPPINGS = ("headers", "object_store_options")  # each value may be secret, whatever its name is
_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1000, "s"), (1, "ms"))
_SIZES = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
# Other names that a file may use for a setting, whatever section it is in.
_OTHER_NAMES: Mapping[str, tuple[str, ...]] = {
    own: tuple(
        other
        for names in (TLS_NAMES, SASL_NAMES, CLIENT_SASL_NAMES, LARGE_NAMES)
        for other, meant in names.items()
        if meant == own
    )
    for names in (TLS_NAMES, SASL_NAMES, CLIENT_SASL_NAMES, LARGE_NAMES)
    for own in names.values()
} | {"policy": ("record.validation.policy",), **{own: (li,) for own, li in LI_NAMES.items()}}

Shown = tuple[Any, Any]  # a value, and where it is from: of the same shape
MAX_TOPICS_LISTED = 500  # topics; each takes some 20 us of the event loop


def effective(config: Config) -> dict[str, Any]:
    """All values of a configuration, and their sources."""
    values, sources = _Walk(config._origins).section(config, ())
    return {"values": values, "sources": sources}


def in_force(server: Server) -> dict[str, Any]:
    """What a running sidecar does: the sections that a reload applies are those of the last one."""
    metrics = server.metrics
    started = _Walk(server.config._origins, MAX_ENTRIES)
    applied = _Walk(server.features.applied._origins, MAX_ENTRIES)
    values: dict[str, Any] = {}
    sources: dict[str, Any] = {}
    for name in Config.model_fields:
        config, walk = (server.features.applied, applied) if name in RELOADED else (server.config, started)
        values[name], sources[name] = walk.field(config, name, (name,))
    return {
        "generation": metrics.config_generation,
        "last_reload": "applied" if metrics.config_is_current else "rejected",
        "restart_required_by": list(metrics.needs_restart),
        "reloaded": sorted(RELOADED),
        "not_shown": started.not_shown | applied.not_shown,
        "values": values,
        "sources": sources,
    }


class _Walk:
    """Through a configuration whose values have these origins; on a page only to the first entries of lists."""

    def __init__(self, origins: Origins, max_entries: int | None = None) -> None:
        self._origins = origins
        self._max_entries = max_entries
        self._left = MAX_ENTRIES_IN_ALL
        self.not_shown: dict[str, int] = {}  # entries, by the setting

    def section(self, section: BaseModel, at: Location) -> Shown:
        values: dict[str, Any] = {}
        sources: dict[str, Any] = {}
        for name in type(section).model_fields:
            values[name], sources[name] = self.field(section, name, (*at, name))
        for name, value in (section.model_extra or {}).items():  # a plug-in's own
            values[name] = hide_secrets({name: value}, SECRET)[name]  # type: ignore[index]
            sources[name] = _source(self._origins, (*at, name)) or DEFAULT
        return values, sources

    def field(self, section: BaseModel, name: str, at: Location) -> Shown:
        value = getattr(section, name)
        if isinstance(value, BaseModel):
            return self.section(value, at)
        if isinstance(value, list) and any(isinstance(one, BaseModel) for one in value):
            shown = [self.section(one, (*at, index)) for index, one in self._cut(list(enumerate(value)), at)]
            return [one for one, _ in shown], [source for _, source in shown]
        if isinstance(value, dict) and any(isinstance(one, BaseModel) for one in value.values()):
            named = {key: self.section(one, (*at, key)) for key, one in self._cut(list(value.items()), at)}
            return {key: one for key, (one, _) in named.items()}, {key: source for key, (_, source) in named.items()}
        is_given = name in section.model_fields_set
        return _written(section, name, value), (is_given and _source(self._origins, at)) or DEFAULT

    def _cut(self, entries: list[Any], at: Location) -> list[Any]:
        if self._max_entries is None:
            return entries
        shown = entries[: min(self._max_entries, self._left)]
        self._left -= len(shown)
        if len(shown) < len(entries):
            self.not_shown[format_key(at)] = len(entries) - len(shown)
        return shown


def _source(origins: Origins, at: Location) -> str | None:
    """Of a value that is given: its own place, or that of what it is in."""
    for end in range(len(at), 0, -1):
        if (found := _given(origins, at[:end])) is not None:
            return found
    return None


def _given(origins: Origins, at: Location) -> str | None:
    *section, name = at
    for one in (name, *_OTHER_NAMES.get(str(name), ())):
        location = (*section, one)
        if location in origins.others or location in origins.lines:
            return origins.of(location)
    return None


def _written(section: BaseModel, name: str, value: Any) -> Any:
    """A value as a file would have it."""
    if isinstance(value, SecretStr):
        return SECRET
    if name == "class_path" and isinstance(value, str):
        return os.pathsep.join(one and str(Path(one).absolute()) for one in value.split(os.pathsep))
    if isinstance(value, Path):
        return str(value.absolute())
    if isinstance(value, bool | None):
        return value
    if isinstance(value, int | float):
        readers = _readers_of(type(section), name)
        if readers & {seconds, milliseconds}:
            return _duration(value if seconds in readers else value / 1000)
        if size in readers:
            return _size(int(value))
    if name in SECRET_MAPPINGS:
        return dict.fromkeys(value, SECRET)
    return hide_secrets(value, SECRET)


@cache
def _readers_of(section: type[BaseModel], name: str) -> frozenset[Any]:
    field = section.model_fields[name]
    return frozenset((*_readers(field.annotation), *(getattr(one, "func", None) for one in field.metadata)))


def _readers(annotation: Any) -> Iterator[Any]:
    """The functions that read what a file has for values of a type."""
    if get_origin(annotation) is Annotated:
        yield from (getattr(one, "func", None) for one in get_args(annotation)[1:])
    for part in get_args(annotation):
        if get_origin(part) is Annotated:
            yield from _readers(part)


def _duration(value: float) -> str:
    """Seconds as text that is read as the same number.

    >>> _duration(90.0), _duration(0.1), _duration(0), _duration(0.0001)
    ('90s', '100ms', '0s', '0.0001s')
    """
    exact = Decimal(repr(float(value))) * 1000
    if exact != exact.to_integral_value():
        return f"{exact / 1000:f}s"
    if not exact:
        return "0s"
    factor, unit = next((factor, unit) for factor, unit in _UNITS if exact % factor == 0)
    return f"{int(exact) // factor}{unit}"


def _size(value: int) -> str | int:
    """Bytes as text that is read as the same number.

    >>> _size(64 << 20), _size(1000), _size(0)
    ('64MiB', 1000, 0)
    """
    return next((f"{value // factor}{unit}" for factor, unit in _SIZES if value and value % factor == 0), value)


def list_topics(server: Server) -> dict[str, Any]:
    """The topics that clients have named, and those that the file names, in short."""
    configured = {topic.name for topic in server.features.applied.topics if is_topic_name(topic.name)}
    names = sorted({*server.topics.names, *configured})
    return {
        "configuration": configuration_hash(server),
        "known": len(names),
        "topics": [_in_short(describe_topic(server, name)) for name in names[:MAX_TOPICS_LISTED]],
    }


def describe_topic(server: Server, name: str) -> dict[str, Any]:
    """All that applies to one topic, known or not."""
    topic_id, habits = server.topics.id_of(name), server.features.producer_habits
    interception = server.features.interception
    return {
        "topic": name,
        "topic_id": urlsafe_b64encode(topic_id).rstrip(b"=").decode() if topic_id != NO_ID else None,
        "validation": _validation(server, name, topic_id),
        "interceptors": interception.describe_topic(name) if interception is not None else [],
        "producers": habits.describe_topic(name) if habits is not None else [],
        "features": {
            group: state for group, feature in server.features.made.items() if (state := feature.topic_state(name))
        },
    }


def configuration_hash(server: Server) -> str:
    """A hash of the sections that a reload applies: equal in sidecars that do the same."""
    from kafka_sidecar.proxy.features.validation.rules import hash_of

    sections = server.features.applied.model_dump(mode="json", include=set(RELOADED), fallback=str)
    return hash_of(hide_secrets(sections))


def _validation(server: Server, name: str, topic_id: bytes) -> dict[str, Any]:
    validator = server.features.validator
    if validator is None:
        return {"policies": [], "why": "no policies are configured"}
    from kafka_sidecar.proxy.features.validation.rules import describe_applied

    try:
        applied = validator.rules.of(name, topic_id)
    except ValueError as error:  # a string that no policy understands
        return {"policies": [], "why": f"its record.validation.policy is invalid on this sidecar: {error}"}
    return describe_applied(applied) if applied else {"policies": [], "why": validator.rules.why_none(name)}


def _in_short(topic: dict[str, Any]) -> dict[str, Any]:
    shown = ("record.validation.policy", "mode", "source", "hash", "why")
    validation = {name: topic["validation"][name] for name in shown if name in topic["validation"]}
    return {**topic, "validation": validation, "interceptors": [one["name"] for one in topic["interceptors"]]}
