"""The types of an Avro schema with what their values mean: names of fields, symbols, logical types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log10
from typing import Any, NamedTuple

from kafka_sidecar.schemas.avro.walk import BYTES, FIXED, INT, LONG, STRING

MAX_PRECISION = 1000  # digits of a decimal
# By the logical type: the types that it is of, and bytes of the fixed.
_LOGICAL: Mapping[str, Mapping[int, int]] = {
    "date": {INT: 0},
    "time-millis": {INT: 0},
    "time-micros": {LONG: 0},
    "timestamp-millis": {LONG: 0},
    "timestamp-micros": {LONG: 0},
    "timestamp-nanos": {LONG: 0},
    "local-timestamp-millis": {LONG: 0},
    "local-timestamp-micros": {LONG: 0},
    "local-timestamp-nanos": {LONG: 0},
    "uuid": {STRING: 0, FIXED: 16},
    "decimal": {BYTES: 0, FIXED: 0},
}


class Logical(NamedTuple):
    name: str
    scale: int = 0  # digits of a decimal after the point


class AvroType(NamedTuple):
    """One type; the others are known by their words in the program."""

    kind: int
    size: int  # of a fixed; symbols of an enum
    parts: Sequence[int]  # of a record, an array, a map or a union, in words
    names: Sequence[str]  # fields of a record; symbols of an enum
    default: int  # symbol of an enum
    logical: Logical | None


def logical_of(kind: int, declared: Mapping[str, Any], size: int = 0) -> Logical | None:
    """The logical type of a type, if it has one that is known and valid for it."""
    name = declared.get("logicalType")
    sizes = _LOGICAL.get(name) if isinstance(name, str) else None
    if sizes is None or sizes.get(kind) not in (0, size):
        return None
    if name != "decimal":
        return Logical(str(name))
    precision, scale = declared.get("precision"), declared.get("scale", 0)
    if type(precision) is not int or type(scale) is not int or not 0 <= scale <= precision <= MAX_PRECISION:
        return None
    fits = kind != FIXED or precision <= log10(2) * (8 * size - 1)
    return Logical(name, scale) if precision > 0 and fits else None
