"""kio as the oracle: an implementation of the protocol that shares nothing with ours must agree byte for byte.

Its limits (closed error codes, calendar times, no unknown tagged fields) are why `sample` has a tame mode.
"""

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

import pytest
from fuzz.samples import pairs, sample
from kio.index import UnknownEntity, load_entity_schema, load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from kafka_sidecar.codec.message import Struct, decode, encode, skipper

ROUNDS = 12
# Newer than kio 0.6.5. A kio that has them fails the last test here.
UNKNOWN_TO_KIO = {
    ("ApiVersionsRequest", 5), ("ApiVersionsResponse", 5),
    ("TxnOffsetCommitRequest", 6), ("TxnOffsetCommitResponse", 6),
}  # fmt: skip
UNKNOWN = [(cls, version) for cls, version in pairs() if (cls.__name__, version) in UNKNOWN_TO_KIO]
PAIRS = [pair for pair in pairs() if pair not in UNKNOWN]
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
    str: lambda random, hint: hint(random.choice(("", "orders", "Bücher-Ω", "x" * 200))),
    bytes: lambda random, hint: hint(random.randbytes(random.choice((0, 1, 61, 126, 127, 128, 20_000)))),
    uuid.UUID: lambda random, hint: uuid.UUID(bytes=random.randbytes(16)),
    datetime.timedelta: lambda random, hint: hint.parse(random.randint(0, 2**31 - 1) * MILLISECOND),
    datetime.datetime: lambda random, hint: EPOCH + datetime.timedelta(seconds=random.randint(0, 10**9)),
}


def name(pair: tuple[type[Struct], int]) -> str:
    return f"{pair[0].__name__}-v{pair[1]}"


@pytest.mark.parametrize("pair", PAIRS, ids=name)
def test_what_kio_writes_is_read_and_written_alike(pair: tuple[type[Struct], int]) -> None:
    cls, version = pair
    kios = kios_class(cls, version)
    random = Random(name(pair))
    for _ in range(ROUNDS):
        data = kio_encode(random_entity(random, kios))
        value, end = decode(cls, data, version)
        assert end == len(data) == skipper(cls, version)(data, 0)
        assert encode(value, version) == data


@pytest.mark.parametrize("pair", PAIRS, ids=name)
def test_what_is_written_here_is_read_and_written_alike_by_kio(pair: tuple[type[Struct], int]) -> None:
    cls, version = pair
    kios = kios_class(cls, version)
    random = Random(name(pair))
    for _ in range(ROUNDS):
        data = encode(sample(random, cls, version, tame=True), version)
        assert kio_encode(kio_decode(kios, data)) == data


def test_kio_knows_all_versions_but_the_newest() -> None:
    for cls, version in UNKNOWN:
        with pytest.raises(UnknownEntity):
            kios_class(cls, version)
    assert {(cls.__name__, version) for cls, version in UNKNOWN} == UNKNOWN_TO_KIO
