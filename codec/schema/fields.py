"""The declaration of fields: one function per wire type, called in the body of a `Struct`.

Each call creates a `Field` and is annotated to return the Python type, so that a type checker sees ``host: str``. All
take the versions that have the field, in Kafka's notation (``"3+"``, ``"0-13"``), and by name:

``nullable``  the versions in which it may be null
``default``   its value if it is absent; otherwise 0, "", b"", an empty array, as in Kafka
``tag``       its number if it is a tagged field (KIP-482)
``tagged``    the versions in which it is one; otherwise all that have the field
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast, overload

from kafka_sidecar.codec.wire import ID_SIZE, NO_ID

NEWEST = 32767  # the upper end of "3+": versions are int16


@dataclass(frozen=True, slots=True)
class Versions:
    """First and last version, both inclusive; empty when ``low > high``."""

    low: int
    high: int

    def __contains__(self, version: int) -> bool:
        return self.low <= version <= self.high

    def __str__(self) -> str:
        if self.low > self.high:
            return "none"
        if self.high == NEWEST:
            return f"{self.low}+"
        return str(self.low) if self.low == self.high else f"{self.low}-{self.high}"


NEVER = Versions(0, -1)


def parse_versions(text: str) -> Versions:
    """The range in Kafka's notation.

    >>> parse_versions("3+"), 3 in parse_versions("0-2")
    (Versions(low=3, high=32767), False)
    """
    if text == "none":
        return NEVER
    low, dash, high = text.removesuffix("+").partition("-")
    if text.endswith("+"):
        return Versions(int(low), NEWEST)
    return Versions(int(low), int(high) if dash else int(low))


T = TypeVar("T")

# wire type -> (format character of `struct`, size in bytes)
FIXED: dict[str, tuple[str, int]] = {
    "bool": ("?", 1),
    "int8": ("b", 1),
    "int16": ("h", 2),
    "uint16": ("H", 2),
    "int32": ("i", 4),
    "uint32": ("I", 4),
    "int64": ("q", 8),
    "float64": ("d", 8),
    "uuid": (f"{ID_SIZE}s", ID_SIZE),
}


@dataclass(frozen=True, slots=True)
class Field:
    """One field as declared. ``kind`` is a wire type, "array" or "struct"; ``of`` is what an array or a struct holds:
    the name of a primitive or a class."""

    kind: str
    of: Any
    versions: Versions
    nullable: Versions
    default: Any
    tag: int | None
    tagged: Versions
    flexible: Versions | None  # None: as the message
    name: str = ""


def _field(
    kind: str, of: Any, versions: str, default: Any,
    nullable: str = "none", tag: int | None = None, tagged: str | None = None, flexible: str | None = None,
) -> Any:  # fmt: skip
    present = parse_versions(versions)
    return Field(
        kind=kind,
        of=of,
        versions=present,
        nullable=parse_versions(nullable),
        default=default,
        tag=tag,
        tagged=NEVER if tag is None else present if tagged is None else parse_versions(tagged),
        flexible=None if flexible is None else parse_versions(flexible),
    )


class Primitive(Generic[T]):
    """A wire type without parts. ``flexible`` overrides the message's flexible versions for one field."""

    __slots__ = ("empty", "kind")

    def __init__(self, kind: str, empty: T) -> None:
        self.kind = kind
        self.empty = empty

    @overload
    def __call__(
        self, versions: str, *, default: T = ..., tag: int | None = ..., tagged: str | None = ..., flexible: str = ...
    ) -> T: ...

    @overload
    def __call__(
        self, versions: str, *, nullable: str, default: T | None = ..., tag: int | None = ...,
        tagged: str | None = ..., flexible: str = ...,
    ) -> T | None: ...  # fmt: skip

    def __call__(self, versions: str, **options: Any) -> Any:
        return _field(self.kind, None, versions, options.pop("default", self.empty), **options)


boolean = Primitive("bool", False)
int8 = Primitive("int8", 0)
int16 = Primitive("int16", 0)
uint16 = Primitive("uint16", 0)
int32 = Primitive("int32", 0)
uint32 = Primitive("uint32", 0)
int64 = Primitive("int64", 0)
float64 = Primitive("float64", 0.0)
# 16 raw bytes.
uuid = Primitive("uuid", NO_ID)
# UTF-8. Other bytes are read as lone surrogates (`surrogateescape`) and written back unchanged.
string = Primitive("string", "")
# Kafka's "bytes".
binary = Primitive("bytes", b"")
# Kafka's "records". Read as a view of the input, not copied.
record_set = Primitive[bytes | memoryview]("records", b"")


@overload
def array(
    of: type[T] | Primitive[T], versions: str, *, tag: int | None = ..., tagged: str | None = ...
) -> tuple[T, ...]: ...


@overload
def array(
    of: type[T] | Primitive[T], versions: str, *, nullable: str, default: tuple[T, ...] | None = ...,
    tag: int | None = ..., tagged: str | None = ...,
) -> tuple[T, ...] | None: ...  # fmt: skip


def array(of: type[T] | Primitive[T], versions: str, **options: Any) -> Any:
    """An array of structs or of primitives: ``array(Broker, "0+")``, ``array(int32, "0+")``."""
    element = of.kind if isinstance(of, Primitive) else of
    return _field("array", element, versions, options.pop("default", ()), **options)


@overload
def struct(of: type[T], versions: str, *, tag: int | None = ..., tagged: str | None = ...) -> T: ...


@overload
def struct(
    of: type[T], versions: str, *, nullable: str, tag: int | None = ..., tagged: str | None = ...
) -> T | None: ...


def struct(of: type[T], versions: str, **options: Any) -> Any:
    """One nested struct. A nullable one has a byte before it that says whether it is present (KIP-893)."""
    return _field("struct", of, versions, None if "nullable" in options else of(), **options)


def is_struct(of: object) -> bool:
    """Whether an array's elements have fields of their own."""
    return not isinstance(cast("str | type", of), str)
