"""Policies of which a topic's records are, in the words of the configuration."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from kafka_sidecar.pipeline.suggest.findings import Finding, describe, find_all, named_headers, pattern_of, share
from kafka_sidecar.pipeline.suggest.formats import Format, format_of
from kafka_sidecar.pipeline.suggest.json_schema import DIALECT, Field, Options, fields_of, limits_of, schema_of
from kafka_sidecar.pipeline.suggest.spread import Number
from kafka_sidecar.pipeline.suggest.summary import (
    ID_HEADERS,
    MAX_HEADERS,
    MAX_IDS,
    HeaderValues,
    Summary,
)

MIN_LIMIT = 64  # bytes
FORMS = {"prefix": "confluent", "header": "confluent_header"}  # of the policy `schema`, by how the id is there
MAX_FIELDS = 200  # places of a document that are shown
# In seconds; what took longer has no limit.
WINDOWS = {"1m": 60, "5m": 300, "15m": 900, "1h": 3600, "6h": 21_600, "1d": 86_400, "7d": 604_800, "30d": 2_592_000}


@dataclass(frozen=True, slots=True)
class Policy:
    """One entry of `policies:`."""

    name: str
    type: str
    settings: dict[str, Any]
    why: tuple[str, ...]  # comments, with counts


@dataclass(frozen=True, slots=True)
class Proposal:
    """What holds for a topic."""

    topic: str
    records: int
    policies: tuple[Policy, ...]
    schemas: dict[str, dict[str, Any]]  # by "key", "value"
    findings: tuple[Finding, ...]
    fields: dict[str, list[Field]]  # of the documents, by part
    limits: tuple[str, ...]  # of this search that were reached


def propose(topic: str, summary: Summary, options: Options) -> Proposal:
    """What a summary says about a topic."""
    slug = re.sub(r"[^\w-]", "-", topic)
    formats = {"key": format_of(summary.key, options.tolerance), "value": format_of(summary.value, options.tolerance)}
    parts = {"key": summary.key, "value": summary.value}
    schemas: dict[str, dict[str, Any]] = {}
    fields: dict[str, list[Field]] = {}
    policies: list[Policy] = []
    for name in ("value", "key"):
        document = formats[name].document(parts[name])
        if document is not None:
            schema = schema_of(document.shape, options)
            schemas[name] = {"$schema": DIALECT, "title": f"{topic}-{name}"} | schema
            fields[name] = list(islice(fields_of(schema, document.shape), MAX_FIELDS + 1))
            policies.append(_of_schema(slug, topic, name, formats[name], options))
        elif formats[name].is_schema_by_id:
            policies.append(_of_id(slug, name, formats[name], options))
    found = (_of_key(slug, summary, formats["key"], options), _of_headers(slug, summary, options))
    policies += [one for one in (*found, *_of_sizes(slug, summary, options), _of_times(slug, summary, options)) if one]
    return Proposal(
        topic, summary.records, tuple(policies), schemas, tuple(find_all(summary, formats, options)), fields,
        (*_limits(summary, formats), *_unshown(fields)),
    )  # fmt: skip


def _unshown(fields: Mapping[str, list[Field]]) -> Iterator[str]:
    for part, found in fields.items():
        if len(found) > MAX_FIELDS:
            found.pop()
            yield f"{part}: only {MAX_FIELDS} places are shown"


def _of_schema(slug: str, topic: str, part: str, of: Format, options: Options) -> Policy:
    settings: dict[str, Any] = {"file": f"schemas/{topic}-{part}.json"}
    if part == "key":
        settings["part"] = part
    if of.framing == "prefix":
        settings["prefix"] = "confluent"
    why = [f"{share(of.count, of.of)} {part}s are {of.text}"]
    if of.nulls <= options.tolerance * (of.of + of.nulls):
        settings["allow_null"] = False
    else:
        why.append(f"{of.nulls:,} are null")
    return Policy(f"{slug}-{part}", "json_schema", settings, tuple(why))


def _of_id(slug: str, part: str, of: Format, options: Options) -> Policy:
    """The id is required: only a registry has the schema."""
    settings: dict[str, Any] = {"require": "id", "forms": [FORMS[of.framing]]}
    if part == "key":
        settings["part"] = part
    why = [f"{share(of.count, of.of)} {part}s are {of.text}"]
    if of.nulls <= options.tolerance * (of.of + of.nulls):
        settings["allow_null"] = False
    else:
        why.append(f"{of.nulls:,} are null")
    why.append("with a registry under schema_registries: set registry, and require: conforms")
    return Policy(f"{slug}-{part}", "schema", settings, tuple(why))


def _of_key(slug: str, summary: Summary, of: Format, options: Options) -> Policy | None:
    """A key is there, and of a pattern; that of a JSON key is in its schema."""
    is_required = summary.records > 0 and of.nulls <= options.tolerance * summary.records
    # Not few values: keys are of things, and there will be others.
    pattern = summary.key.text.pattern(options.tolerance)[1] if of.name == "text" else None
    if not is_required and pattern is None:
        return None
    settings: dict[str, Any] = {} if is_required else {"required": False}
    why = [f"{share(summary.records - of.nulls, summary.records)} records have a key"]
    if pattern is not None:
        settings["pattern"] = pattern
    return Policy(f"{slug}-key-form" if of.name == "JSON" else f"{slug}-key", "key", settings, tuple(why))


def _of_headers(slug: str, summary: Summary, options: Options) -> Policy | None:
    if summary.headers is None:
        return None
    named = dict(sorted(named_headers(summary.headers)))
    allowed = options.tolerance * summary.records
    required = [name for name, about in named.items() if summary.records - about.records <= allowed]
    values = {
        name: pattern
        for name, about in named.items()
        if not _is_id(name) and (pattern := _header_pattern(about, options)) is not None
    }
    settings: dict[str, Any] = {"required": required} if required else {}
    if values:
        settings["values"] = values
    if options.is_closed and summary.records:
        others = [name for name, about in named.items() if name not in required and about.records > allowed]
        settings["allowed"] = others
    if not settings:
        return None
    why = [f"{name}: {share(about.records, summary.records)} records" for name, about in named.items()]
    return Policy(f"{slug}-headers", "headers", settings, tuple(why))


def _is_id(name: str) -> bool:
    return name.encode() in ID_HEADERS.values()


def _header_pattern(about: HeaderValues, options: Options) -> str | None:
    if about.nulls + about.not_text > options.tolerance * about.headers:
        return None
    return pattern_of(about.values, options)


def _of_sizes(slug: str, summary: Summary, options: Options) -> Iterator[Policy]:
    if not options.with_ranges or summary.records < options.evidence:
        return
    settings: dict[str, Any] = {}
    why = []
    for part, sizes in (("key", summary.key.sizes), ("value", summary.value.sizes)):
        if sizes.count:
            _, most = sizes.ends(options.tolerance)
            settings[f"max_{part}_bytes"] = _size(_power(int(most)))
            why.append(f"{part}s have {describe(sizes)} bytes")
    if options.is_closed:
        settings["max_headers"] = int(summary.header_counts.ends(options.tolerance)[1])
    if settings:
        yield Policy(f"{slug}-sizes", "limits", settings, tuple(why))


def _power(number: int) -> int:
    return max(MIN_LIMIT, 1 << max(number - 1, 0).bit_length())


def _size(number: int) -> int | str:
    """As it is written: 2KiB.

    >>> _size(64), _size(2048), _size(1 << 21)
    (64, '2KiB', '2MiB')
    """
    for name, unit in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if number >= unit:
            return f"{number // unit}{name}"
    return number


def _of_times(slug: str, summary: Summary, options: Options) -> Policy | None:
    """A timestamp is there; how old it may be is known only where the broker has added its own."""
    if not summary.timestamps.count or summary.untimed.count > options.tolerance * summary.records:
        return None
    settings: dict[str, Any] = {"required": True, "after_max": None}
    why = [f"{share(summary.records - summary.untimed.count, summary.records)} records have a timestamp"]
    if set(summary.clocks) == {"LogAppendTime"} and options.with_ranges and summary.records >= options.evidence:
        least, most = summary.lateness.ends(options.tolerance)
        why.append(f"they were between {least} and {most} ms old when the broker got them")
        settings["after_max"] = _window(-least)
        if (window := _window(most)) is not None:
            settings["before_max"] = window
    return Policy(f"{slug}-time", "timestamp", settings, tuple(why))


def _window(milliseconds: Number) -> str | None:
    """The shortest duration of some that is as long.

    >>> _window(-5), _window(61_000), _window(10**12)
    ('1m', '5m', None)
    """
    return next((name for name, seconds in WINDOWS.items() if milliseconds <= 1000 * seconds), None)


def _limits(summary: Summary, formats: Mapping[str, Format]) -> Iterator[str]:
    for part, whole in (("value", summary.value), ("key", summary.key)):
        document = formats[part].document(whole)
        if document is not None:
            yield from (f"{part}: {one}" for one in limits_of(document.shape, document.cap))
        if whole.ids is None:
            yield f"{part}: there are more than {MAX_IDS} ids of schemas, which are not counted"
    if summary.headers is None:
        yield f"there are more than {MAX_HEADERS} names of headers, so nothing is said about headers"
