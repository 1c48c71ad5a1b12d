"""Messages with very many elements: of each array of a message one, whatever the API."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.message import Message, Struct, replace_fields
from kafka_sidecar.codec.messages import __path__ as messages_path
from kafka_sidecar.codec.schema.fields import Field, is_struct

NUMBERS = frozenset({"int8", "int16", "int32", "int64", "uint16", "uint32"})


def with_many(cls: type[Struct], version: int, count: int, name_bytes: int = 0) -> Iterator[tuple[str, Struct]]:
    """By the path of an array: a ``cls`` in which it has ``count`` elements, and each array around it has one.

    ``name_bytes``: how long the name of each element is at least.
    """
    for field in cls.declaration_.plain(version):
        if field.kind == "struct":
            for path, value in with_many(field.of, version, count, name_bytes):
                yield f"{field.name}.{path}", replace_fields(cls(), **{field.name: value})
        if field.kind != "array":
            continue
        many = tuple(_element(field, at, name_bytes) for at in range(count))
        yield field.name, replace_fields(cls(), **{field.name: many})
        if is_struct(field.of):
            for path, value in with_many(field.of, version, count, name_bytes):
                named = _named(value, 0, version, 0)
                yield f"{field.name}[0].{path}", replace_fields(cls(), **{field.name: (named,)})


def _element(field: Field, at: int, name_bytes: int) -> Any:
    if is_struct(field.of):
        return _named(field.of(), at, 0, name_bytes)
    if field.of == "string":
        return f"t{at}".ljust(name_bytes, "x")
    return at.to_bytes(16, "big") if field.of == "uuid" else at % 100 if field.of in NUMBERS else b""


def _named(value: Struct, at: int, version: int, name_bytes: int) -> Struct:
    """With a name of its own in each field that is one."""
    names = dict.fromkeys(_fields(type(value), "string"), f"t{at}".ljust(name_bytes, "x"))
    ids = dict.fromkeys(_fields(type(value), "uuid"), (at + 1).to_bytes(16, "big"))
    return replace_fields(value, **names, **ids)


@cache
def _fields(cls: type[Struct], kind: str) -> tuple[str, ...]:
    return tuple(one.name for one in cls.declaration_.fields if one.kind == kind)


@cache
def messages_of(key: ApiKey) -> tuple[type[Message] | None, type[Message]]:
    """The request of an API, unless no feature reads it, and its response."""
    found = {one.__name__.endswith("Request"): one for one in _all_messages() if one.declaration_.api_key == key}
    return found.get(True), found[False]


def _all_messages() -> list[type[Message]]:
    import importlib
    import pkgutil

    for module in pkgutil.iter_modules(messages_path, "kafka_sidecar.codec.messages."):
        importlib.import_module(module.name)
    return [one for one in Message.__subclasses__() if one.__module__.startswith("kafka_sidecar.codec.messages")]
