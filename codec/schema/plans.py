"""Plans: what a `Cursor` follows to step over fields that are not read, built from the declaration of a message.

A plan is bytes, two for each step, which compiled code runs: `Cursor.follow`. Readers name the fields that they read;
what is between these comes from the declaration, so a version with more fields changes no reader.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

from kafka_sidecar.codec.errors import UnsupportedVersionError
from kafka_sidecar.codec.schema.fields import FIXED, Field, is_struct
from kafka_sidecar.codec.schema.structs import Declaration, Struct

TAGS = "(tagged fields)"  # the tag section, in place of a field's name

# The first byte of a step. The second is a number of bytes: of the field, of an element, of the plan of an element.
SKIP, SKIP_TAGS, SKIP_STRING, SKIP_ELEMENTS, EACH = range(5)
NULLABLE = 8  # is added to the last three
_SIZE_LIMIT = 256


@cache
def plan(cls: type[Struct], version: int, after: str | None = None, before: str | None = None) -> bytes:
    """The steps over the fields of a ``cls`` after ``after`` and before ``before``, as in `skipper`.

    Versions older than those that are declared have the fields that name them.

    Raises:
        UnsupportedVersionError: this version does not have these fields outside its tag section.
    """
    declaration = cls.declaration_
    fields = declaration.plain(version)
    start = 0 if after is None else _index(declaration, version, after) + 1
    end = len(fields) if before in (None, TAGS) else _index(declaration, version, before)
    return _joined(_steps(declaration, fields[start:end], version, has_tags=before is None))


@cache
def plans(cls: type[Struct], version: int, *read: str) -> tuple[Any, ...]:
    """The plan up to each field that is ``read``, and the one after the last; None for a field that this version does
    not have."""
    last: str | None = None
    found: list[bytes | None] = []
    for name in read:
        if has_field(cls, name, version):
            found.append(plan(cls, version, after=last, before=name))
            last = name
        else:
            found.append(None)
    return (*found, plan(cls, version, after=last))


@cache
def has_field(cls: type[Struct], name: str, version: int) -> bool:
    """Whether this part of a message has a field in this version.

    >>> from kafka_sidecar.codec.messages.produce import TopicProduceData
    >>> [has_field(TopicProduceData, "topic_id", version) for version in (12, 13)]
    [False, True]
    """
    return any(one.name == name and version in one.versions for one in cls.declaration_.fields)


@cache
def field_plan(cls: type[Struct], version: int, name: str) -> bytes:
    """The steps over one field."""
    declaration = cls.declaration_
    field = declaration.plain(version)[_index(declaration, version, name)]
    return _joined(_steps(declaration, [field], version, has_tags=False))


@cache
def fixed_start(cls: type[Struct], version: int) -> tuple[int, dict[str, int], bytes]:
    """The fields of fixed sizes that a ``cls`` begins with: their size, where each is, and the plan of the others."""
    fields, size, places = cls.declaration_.plain(version), 0, {}
    for field in fields:
        if field.kind not in FIXED:
            break
        places[field.name], size = size, size + FIXED[field.kind][1]
    last = fields[len(places) - 1].name if places else None
    return size, places, plan(cls, version, after=last)


def _index(declaration: Declaration, version: int, name: str) -> int:
    for index, field in enumerate(declaration.plain(version)):
        if field.name == name:
            return index
    raise UnsupportedVersionError(f"{declaration.name} v{version} has no field {name} outside its tagged fields")


def _steps(declaration: Declaration, fields: Iterable[Field], version: int, has_tags: bool) -> list[bytes]:
    steps = []
    for field in fields:
        is_nullable = version in field.nullable
        if field.kind == "struct" and not is_nullable:
            nested = field.of.declaration_
            steps += _steps(nested, nested.plain(version), version, has_tags=True)
        elif field.flexible is not None or field.kind == "struct":
            raise NotImplementedError(f"{declaration.name}.{field.name} has no plan")
        else:
            steps += _value(field.kind, field.of, version, NULLABLE * is_nullable)
    if has_tags and declaration.is_flexible(version):
        steps.append(bytes((SKIP_TAGS, 0)))
    return steps


def _value(kind: str, of: Any, version: int, nullable: int) -> list[bytes]:
    if kind in FIXED:
        return [bytes((SKIP, FIXED[kind][1]))]
    if kind == "string":
        return [bytes((SKIP_STRING | nullable, 0))]
    if kind != "array":
        return [bytes((SKIP_ELEMENTS | nullable, 1))]
    if is_struct(of):
        element = _joined(_steps(of.declaration_, of.declaration_.plain(version), version, has_tags=True))
    else:
        element = _joined(_value(of, None, version, 0))
    if len(element) == 2 and element[0] == SKIP:
        return [bytes((SKIP_ELEMENTS | nullable, element[1]))]
    return [bytes((EACH | nullable, len(element))), element]


def _joined(steps: list[bytes]) -> bytes:
    """The plan, with one step over all fields of fixed sizes that follow each other."""
    joined: list[bytes] = []
    for step in steps:
        last = joined[-1] if joined else b""
        if len(last) == len(step) == 2 and last[0] == step[0] == SKIP and last[1] + step[1] < _SIZE_LIMIT:
            joined[-1] = bytes((SKIP, last[1] + step[1]))
        else:
            joined.append(step)
    return b"".join(joined)
