"""Random valid messages, driven by the declarations."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from functools import cache
from random import Random
from typing import Any

from kafka_sidecar.codec import headers, messages
from kafka_sidecar.codec.message import Message, Struct
from kafka_sidecar.codec.schema.fields import Field

_INTEGERS = {
    "int8": (-(2**7), 2**7 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "uint16": (0, 2**16 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "int64": (-(2**63), 2**63 - 1),
}
_TEXTS = ("", "orders", "Bücher-Ω", "x" * 130, "\udcff\udc80", "nul\0")
_FIRST_UNKNOWN_TAG = 40


@cache
def roots() -> tuple[type[Message], ...]:
    """Every declared message, the headers too."""
    names = [f"{messages.__name__}.{module.name}" for module in pkgutil.iter_modules(messages.__path__)]
    modules = [headers, *map(importlib.import_module, names)]
    found = {thing for module in modules for thing in vars(module).values() if _is_root(thing)}
    return tuple(sorted(found, key=lambda cls: cls.__name__))


def _is_root(thing: object) -> bool:
    return isinstance(thing, type) and issubclass(thing, Message) and thing is not Message


def versions(cls: type[Struct]) -> range:
    covered = cls.declaration_.versions
    assert covered is not None
    return range(covered.low, covered.high + 1)


@cache
def pairs() -> tuple[tuple[type[Struct], int], ...]:
    """Every declared message in every version."""
    return tuple((cls, version) for cls in roots() for version in versions(cls))


@cache
def structs() -> tuple[type[Struct], ...]:
    """Every message and every struct inside one."""
    return tuple(dict.fromkeys(struct for root in roots() for struct in _structs(root)))


def _structs(cls: type[Struct]) -> Iterator[type[Struct]]:
    yield cls
    for field in cls.declaration_.fields:
        if isinstance(field.of, type):
            yield from _structs(field.of)


def sample(random: Random, cls: type[Struct], version: int, *, tame: bool = False) -> Any:
    """A value that has every field of this version, and unknown tagged fields where there can be some.

    ``tame``: only what other implementations take too: known error codes, times within a calendar's range, no bytes
    that are not UTF-8, no unknown tagged fields.
    """
    declared = cls.declaration_
    values = {f.name: _value(random, f, version, tame) for f in declared.fields if version in f.versions}
    if declared.is_flexible(version) and not tame and random.random() < 0.3:
        values["unknown_tags"] = tuple(
            (_FIRST_UNKNOWN_TAG + 100 * n, random.randbytes(random.choice((0, 3, 200))))
            for n in range(random.randint(1, 3))
        )
    return cls(**values)


def _value(random: Random, field: Field, version: int, tame: bool) -> Any:
    if version in field.nullable and random.random() < 0.2:
        return None
    if version in field.tagged and random.random() < 0.4:
        return field.default
    if field.kind == "array":
        return tuple(_one(random, field.of, "", version, tame) for _ in range(random.choice((0, 1, 1, 2, 4))))
    return _one(random, field.of or field.kind, field.name, version, tame)


def _one(random: Random, kind: Any, name: str, version: int, tame: bool) -> Any:
    if isinstance(kind, type):
        return sample(random, kind, version, tame=tame)
    if kind in _INTEGERS:
        return _integer(random, kind, name, tame)
    if kind == "string":
        return random.choice(_TEXTS[:4] if tame else _TEXTS)
    if kind == "bool":
        return random.random() < 0.5
    if kind == "float64":
        return random.choice((0.0, -1.5, 1e300))
    return random.randbytes(16 if kind == "uuid" else random.choice((0, 1, 60, 127, 128, 20_000)))


def _integer(random: Random, kind: str, name: str, tame: bool) -> int:
    low, high = _INTEGERS[kind]
    if tame and name.endswith("error_code"):
        return random.choice((0, 3, 6, 35, 87, 100))
    if tame and name.endswith("_ms"):
        return random.randint(0, min(high, 10**12))
    return random.choice((0, 1, -1 if low else 1, low, high, random.randint(low, high)))
