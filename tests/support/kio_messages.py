"""Random messages of kio's own classes, and their bytes: what the codec did not build itself."""

from __future__ import annotations

import datetime
import enum
import io
import types
import uuid
from dataclasses import MISSING, fields
from functools import cache
from random import Random
from typing import Any, Union, get_args, get_origin, get_type_hints

from kio.index import load_entity_schema, load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from kafka_sidecar.codec.message import Struct

# Newer than kio 0.6.5, or dropped in Kafka 4.0. A kio that has them fails a test.
UNKNOWN_TO_KIO = {
    ("ApiVersionsRequest", 5),
    ("ApiVersionsResponse", 5),
    ("DeleteTopicsRequest", 0),
    ("DeleteTopicsResponse", 0),
    ("UnregisterControllerResponse", 0),
    *((f"OffsetFetch{side}", 0) for side in ("Request", "Response")),
    *((f"DeleteGroups{side}", 3) for side in ("Request", "Response")),
    *((f"StreamsGroup{what}{side}", 1) for what in ("Describe", "Heartbeat") for side in ("Request", "Response")),
    *((f"StreamsGroupTopologyDescriptionUpdate{side}", 0) for side in ("Request", "Response")),
    ("TxnOffsetCommitRequest", 6),
    ("TxnOffsetCommitResponse", 6),
    *((f"Produce{side}", version) for side in ("Request", "Response") for version in range(3)),
    *((f"OffsetCommit{side}", version) for side in ("Request", "Response") for version in range(2)),
    *((f"CreateTopics{side}", version) for side in ("Request", "Response") for version in range(2)),
}
MILLISECOND = datetime.timedelta(milliseconds=1)
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def kios_class(cls: type[Struct], version: int) -> Any:
    key = cls.declaration_.api_key
    if key is None:
        name = "request_header" if cls.__name__ == "RequestHeader" else "response_header"
        return load_entity_schema(name, version, EntityType.header)
    return (load_request_schema if cls.__name__.endswith("Request") else load_response_schema)(key, version)


def kio_encode(value: Any) -> bytes:
    out = io.BytesIO()
    entity_writer(type(value))(out, value)
    return out.getvalue()


def kio_decode(kios: Any, data: bytes) -> Any:
    value, size = entity_reader(kios)(data, 0)
    assert size == len(data)
    return value


@cache
def hints(kios: type) -> dict[str, Any]:
    return get_type_hints(kios)


def random_entity(random: Random, kios: Any) -> Any:
    """A random value of one of kio's classes, from nothing but its annotations."""
    values = {}
    for field in fields(kios):
        if "tag" in field.metadata and field.default is not MISSING and random.random() < 0.4:
            continue
        values[field.name] = random_value(random, hints(kios)[field.name])
    return kios(**values)


def random_value(random: Random, hint: Any) -> Any:
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        hint = next(part for part in get_args(hint) if part is not type(None))
        return None if random.random() < 0.2 else random_value(random, hint)
    if origin is tuple:
        return tuple(random_value(random, get_args(hint)[0]) for _ in range(random.choice((0, 1, 1, 3))))
    if hasattr(hint, "__dataclass_fields__"):
        return random_entity(random, hint)
    if hasattr(hint, "__low__"):
        return random.choice((hint.__low__, hint.__high__, 0, random.randint(hint.__low__, hint.__high__)))
    for base, make in MAKERS.items():
        if issubclass(hint, base):
            return make(random, hint)
    raise AssertionError(f"no random {hint}")


MAKERS: dict[type, Any] = {
    enum.Enum: lambda random, hint: random.choice(list(hint)),
    bool: lambda random, hint: random.random() < 0.5,
    float: lambda random, hint: hint(random.uniform(-1e9, 1e9)),
    str: lambda random, hint: hint(random.choice(("", "orders", "Bücher-Ω", "x" * 200))),
    bytes: lambda random, hint: hint(random.randbytes(random.choice((0, 1, 61, 126, 127, 128, 20_000)))),
    uuid.UUID: lambda random, hint: uuid.UUID(bytes=random.randbytes(16)),
    datetime.timedelta: lambda random, hint: hint.parse(random.randint(0, 2**31 - 1) * MILLISECOND),
    datetime.datetime: lambda random, hint: EPOCH + datetime.timedelta(seconds=random.randint(0, 10**9)),
}
