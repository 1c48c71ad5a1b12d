"""The base of messages: immutable values with named fields, declared once for all versions.

    class MetadataResponseBroker(Struct):
        node_id: int = int32("0+")
        host: str = string("0+")

    class MetadataResponse(Message, api_key=3, versions="0-13", flexible="9+"):
        brokers: tuple[MetadataResponseBroker, ...] = array(MetadataResponseBroker, "0+")

Underneath, a value is a named tuple: reading one costs one allocation, and it can be compared, hashed and copied.
"""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeVar, dataclass_transform

from kafka_sidecar.codec.errors import UnsupportedVersionError
from kafka_sidecar.codec.schema.fields import Field, Versions, is_struct, parse_versions

Tags = tuple[tuple[int, bytes], ...]
S = TypeVar("S", bound="Struct")


@dataclass(slots=True)
class Declaration:
    """The fields and versions of a class. A nested struct belongs to one message and shares its versions."""

    name: str
    fields: tuple[Field, ...]
    api_key: int | None = None
    versions: Versions | None = None
    flexible: Versions | None = None

    def adopt(self, nested: Declaration) -> None:
        if nested.versions is None:
            nested.api_key, nested.versions, nested.flexible = self.api_key, self.versions, self.flexible
        elif (nested.versions, nested.flexible) != (self.versions, self.flexible):
            raise TypeError(f"{nested.name} is part of another message already; {self.name} needs its own")
        for part in nested.fields:
            self.adopt_parts_of(part)

    def adopt_parts_of(self, field: Field) -> None:
        if field.kind in ("array", "struct") and is_struct(field.of):
            self.adopt(field.of.declaration_)

    def check(self, version: int) -> None:
        if self.versions is None:
            raise TypeError(f"{self.name} is not part of any message")
        if version not in self.versions:
            raise UnsupportedVersionError(f"{self.name} has versions {self.versions}, not {version}")

    def is_flexible(self, version: int) -> bool:
        return self.flexible is not None and version in self.flexible

    @property
    def first_flexible(self) -> int:
        """The first version with compact lengths and tagged fields; ValueError where there is none."""
        if self.flexible is None or self.flexible.low > self.flexible.high:
            raise ValueError(f"{self.name} has no flexible version")
        return self.flexible.low

    def plain(self, version: int) -> list[Field]:
        """The fields outside the tag section, in wire order."""
        return [f for f in self.fields if version in f.versions and version not in f.tagged]

    def tagged(self, version: int) -> list[Field]:
        """The known fields inside the tag section, in wire order."""
        known = [f for f in self.fields if version in f.versions and version in f.tagged]
        return sorted(known, key=lambda field: field.tag or 0)

    def first_version(self, name: str) -> int:
        """The first version that has a field."""
        for field in self.fields:
            if field.name == name:
                return field.versions.low
        raise ValueError(f"{self.name} has no field {name}")

    def field(self, name: str, version: int) -> Field:
        for field in self.fields:
            if field.name == name and version in field.versions:
                return field
        raise UnsupportedVersionError(f"{self.name} v{version} has no field {name}")


def _equal(self: Any, other: Any) -> bool:
    return self.__class__ is other.__class__ and tuple.__eq__(self, other)


def _unequal(self: Any, other: Any) -> bool:
    return not _equal(self, other)


@dataclass_transform(kw_only_default=True, frozen_default=True)
class StructType(type):
    """Turns a class body of fields into a named tuple with Kafka's defaults."""

    def __new__(mcls, name: str, bases: tuple[type, ...], body: dict[str, Any], **message: Any) -> Any:
        if body["__module__"] == __name__:  # the two bases below
            return super().__new__(mcls, name, bases, {**body, "__slots__": ()})
        fields = tuple(replace(f, name=key) for key, f in body.items() if isinstance(f, Field))
        rest = {key: thing for key, thing in body.items() if not isinstance(thing, Field)}
        values = namedtuple(  # type: ignore[misc]
            name, [*(f.name for f in fields), "unknown_tags"], defaults=[*(f.default for f in fields), ()]
        )
        declaration = Declaration(name, fields)
        rest |= {"__slots__": (), "__eq__": _equal, "__ne__": _unequal, "__hash__": tuple.__hash__}
        cls = super().__new__(mcls, name, (values, *bases), rest | {"declaration_": declaration})
        if message:
            declaration.api_key = message.get("api_key")
            declaration.versions = parse_versions(message["versions"])
            declaration.flexible = parse_versions(message["flexible"])
            for field in fields:
                declaration.adopt_parts_of(field)
        return cls


class Struct(metaclass=StructType):
    """A part of a message. ``unknown_tags`` holds the tagged fields that are not declared, unchanged."""

    declaration_: ClassVar[Declaration]
    unknown_tags: Tags = ()


class Message(Struct):
    """A root: ``class X(Message, api_key=3, versions="0-13", flexible="9+")``. Headers have no api key."""


def replace_fields(value: S, /, **fields: Any) -> S:
    """A copy of ``value`` with some fields changed.

    Raises:
        ValueError: unknown field.
    """
    return value._replace(**fields)  # type: ignore[attr-defined,no-any-return]
