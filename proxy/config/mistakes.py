"""Mistakes in a configuration: where each is, and what to write instead. All are reported at once, a line for each.

Entries of ``topics:`` that can never apply, because an earlier one matches every name that they match, are among them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from kafka_sidecar.plugins.patterns import covers
from kafka_sidecar.plugins.settings import SettingsError, did_you_mean, remedy

Location = tuple[int | str, ...]  # keys, and indexes of lists, from the top of the file

EXAMPLES = {
    "topics": "[{name: orders, policy: json}]",
    "policies": "{orders-json: {type: json}}",
    "schema_registries": "{main: {urls: http://registry:8081}}",
    "interceptors": "[{type: latency}]",
    "topic_guards": "[{partitions: {max: 50}}]",
    "producers": '[{topics: ["orders-*"], acks: all}]',
}
ENTRIES = {
    "topics": "{name: orders}",
    "policies": "{type: json}",
    "interceptors": "{type: latency}",
    "producers": '{topics: ["orders-*"], acks: all}',
    "schema_registries": "{urls: http://registry:8081}",
    "topic_guards": "{partitions: {max: 50}}",
}
NAMED = ("policies", "schema_registries")  # mappings of names to settings
_OF_A_VARIABLE = re.compile("[a-z][a-z0-9]*(_[a-z0-9]+)*")


class ConfigError(Exception):
    """The configuration is invalid: one line for each mistake, with file and line, key and remedy."""

    def __init__(self, *lines: str) -> None:
        super().__init__("; ".join(lines))
        self.lines = lines


ENV_PREFIX = "KAFKA_SIDECAR__"
INLINE_SECRET = "inline_secret"  # noqa: S105 - the type of an error


def variable_of(location: Location) -> str:
    """The environment variable of a setting."""
    return ENV_PREFIX + "__".join(map(str, location)).upper()


@dataclass(frozen=True, slots=True)
class Mistake:
    location: Location
    text: str  # what is wrong, and the remedy


@dataclass(frozen=True, slots=True)
class Origins:
    """Where each value is from: a line of the file, a variable or a flag."""

    whole: str  # the file, or "command line" without one
    lines: Mapping[Location, int] = field(default_factory=dict)
    others: Mapping[Location, str] = field(default_factory=dict)  # variables and flags, which override the file

    def of(self, location: Location) -> str:
        for end in range(len(location), 0, -1):
            if location[:end] in self.others:
                return self.others[location[:end]]
            if location[:end] in self.lines:
                return f"{self.whole}:{self.lines[location[:end]]}"
        inside = (origin for other, origin in self.others.items() if other[: len(location)] == location != ())
        return next(inside, self.whole)

    def error(self, mistakes: Iterable[Mistake]) -> ConfigError:
        """All of them, in the order of the file."""
        ordered = sorted(mistakes, key=lambda mistake: self.lines.get(mistake.location[:2], 0))
        lines = ((self.of(one.location), format_key(one.location), one.text) for one in ordered)
        return ConfigError(*(": ".join(filter(None, parts)) for parts in lines))


def format_key(location: Location) -> str:
    """A location as it is written in messages: ``topics (entry 2).percent``."""
    parts = (f" (entry {part + 1})" if isinstance(part, int) else f".{part}" for part in location)
    return "".join(parts).removeprefix(".")


def explain(error: ValidationError, root: type[BaseModel]) -> Iterator[Mistake]:
    """The mistakes that pydantic found in a configuration of this type."""
    for one in error.errors(include_url=False):
        yield Mistake(one["loc"], _text(one, root))


def explain_plugin(error: ValueError, name: str, location: Location) -> Iterator[Mistake]:
    """The mistakes for which a plug-in could not be opened."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, SettingsError):
        cause = cause.__cause__
    if cause is None:
        yield Mistake(location, str(error).removeprefix(f"{name}: "))
    else:
        yield from (Mistake((*location, *inside), text) for inside, text in cause.faults)


def _text(error: ErrorDetails, root: type[BaseModel]) -> str:
    location = error["loc"]
    section = str(location[0]) if location else ""
    match error["type"]:
        case "missing" if len(location) == 1:
            return f"is missing: set it in the file, with --{section.replace('_', '-')} or with {variable_of(location)}"
        case "missing":
            return "is missing: set it in the file"
        case "inline_secret":
            return _instead_of_a_secret(location, error["ctx"]["key"], error["ctx"]["name"])
        case "list_type" | "dict_type" if len(location) == 1 and section in EXAMPLES:
            kind = "list" if error["type"] == "list_type" else "mapping"
            return f"write a {kind} in the file, such as {EXAMPLES[section]}"
        case "model_type" if section in NAMED and len(location) == 2:
            return _name_between(section, str(location[1]), root)
        case "model_type":
            example = ENTRIES.get(section)
            return f"must be a mapping, such as {example}" if example else "must be a mapping of settings"
        case "extra_forbidden":
            return f"is not a setting; {_known_keys(location, root)}"
        case _:
            return remedy(error)


def _instead_of_a_secret(section: Location, key: str, name: str) -> str:
    variable = variable_of((*section, name))
    # The name of an entry that a variable cannot have: variables are read in lower case.
    can_be_set = not any(isinstance(part, int) or not _OF_A_VARIABLE.fullmatch(part) for part in section)
    other = f"the environment variable {variable}, or " if can_be_set else ""
    return f"{key}: a secret is not written into this file; set {other}{name}_file to a file with it"


def _name_between(section: str, key: str, root: type[BaseModel]) -> str:
    """Of an entry that is no mapping: its settings were written where its name belongs."""
    known = _section_at((section, key), root).model_fields
    if key not in known and not did_you_mean(key, known):
        return f"must be a mapping, such as {ENTRIES[section]}"
    return f"a name is missing between {section} and {key}: write {EXAMPLES[section]}"


def _known_keys(location: Location, root: type[BaseModel]) -> str:
    known = _section_at(location[:-1], root).model_fields
    return f"{did_you_mean(str(location[-1]), known)}known here: {', '.join(sorted(known))}"


def _section_at(location: Location, root: type[BaseModel]) -> type[BaseModel]:
    section: Any = root
    for part in location:
        if part in section.model_fields:  # neither the name of a policy nor an index
            annotation = section.model_fields[part].annotation
            section = next((kind for kind in (*get_args(annotation), annotation) if _is_section(kind)), section)
    found: type[BaseModel] = section
    return found


def _is_section(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def find_dead_entries(names: Sequence[str]) -> Iterator[Mistake]:
    """A mistake for each name or pattern that an earlier one covers."""
    seen: dict[str, int] = {}
    patterns: list[int] = []
    for index, name in enumerate(names):
        earlier = seen.setdefault(name, index)
        if earlier == index:
            earlier = next((at for at in patterns if covers(names[at], name)), index)
            if "*" in name or "?" in name:
                patterns.append(index)
        if earlier != index:
            what = f"entry {earlier + 1}, {names[earlier]}, matches all of its topics first"
            yield Mistake(("topics", index, "name"), f"{name} never applies: {what}; remove one, or put this one first")
