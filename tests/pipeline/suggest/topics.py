"""Topics of which is known what holds for them: their records, and the truth about these."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from io import BytesIO
from random import Random
from typing import Any
from uuid import UUID

import fastavro
import orjson

from kafka_sidecar.codec.records import Header, NewRecord, build_batch
from kafka_sidecar.pipeline.suggest.json_schema import DIALECT, Options
from kafka_sidecar.pipeline.suggest.strings import PATTERNS
from pipeline.records.logs import APPENDED_AT, SENT_AT, stored

RECORDS, PARTITIONS, PER_BATCH = 4000, 2, 50
WORDS = [
    "a",
    "few",
    "words",
    "of",
    "no",
    "form",
    "at",
    "all,",
    "of",
    "which",
    "there",
    "are",
    "many",
    "and",
    "none",
    "like",
    "another",
]
AVRO = fastavro.parse_schema(
    {
        "type": "record",
        "name": "Order",
        "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"]}],
    }
)
UUID_SCHEMA = {"type": "string", "format": "uuid", "pattern": f"^{PATTERNS['uuid']}$"}
TIME = {"type": "timestamp", "required": True, "after_max": None}

Make = Callable[[int, Random], NewRecord]


@dataclass(frozen=True, eq=False)
class Known:
    """One topic and the truth about it."""

    name: str
    make: Make
    value: str  # the format
    key: str
    policies: dict[str, dict[str, Any]]  # by what follows the topic's name
    schema: dict[str, Any] | None = None  # of the value
    key_schema: dict[str, Any] | None = None
    ids: dict[str, int] = field(default_factory=dict)  # of the values' schemas
    headers: tuple[str, ...] = ()  # what is said of them
    rejected: int = 0  # records that are otherwise
    options: Options = field(default_factory=Options)
    append_time: int | None = None  # of topics with LogAppendTime

    def records(self) -> list[NewRecord]:
        chance = Random(self.name)
        return [self.make(number, chance) for number in range(RECORDS)]

    def log(self, partition: int) -> list[bytes]:
        """A broker's log of one partition: every second record."""
        return list(_log(self.name, partition))

    def full_schema(self, part: str) -> dict[str, Any] | None:
        schema = self.schema if part == "value" else self.key_schema
        return None if schema is None else {"$schema": DIALECT, "title": f"{self.name}-{part}"} | schema


@cache
def _log(name: str, partition: int) -> tuple[bytes, ...]:
    own = BY_NAME[name].records()[partition::PARTITIONS]
    sent = (
        build_batch(own[at : at + PER_BATCH], codec=3, base_timestamp=SENT_AT) for at in range(0, len(own), PER_BATCH)
    )
    return tuple(stored(sent, append_time=BY_NAME[name].append_time))


def uuid(chance: Random) -> str:
    return str(UUID(int=chance.getrandbits(128)))


def words(chance: Random) -> str:
    return " ".join(chance.choices(WORDS, k=5)) + chance.choice(WORDS) * chance.randint(0, 9)


def spread(number: int, most: int) -> int:
    """Each number from 0 to ``most`` in turn."""
    return number % (most + 1)


def json(content: Any, key: bytes | None = None, headers: tuple[Header, ...] = ()) -> NewRecord:
    return NewRecord(orjson.dumps(content), key, headers)


def orders(number: int, chance: Random) -> NewRecord:
    """Optional fields, few values, a nullable field, a number with a range, a date; a key with a template."""
    content = {
        "id": uuid(chance), "status": ("NEW", "PAID", "SENT")[number % 3], "amount": spread(number, 1000) / 4,
        "quantity": 1 + spread(number, 9), "day": f"2026-11-{1 + spread(number, 27):02}",
        "note": None if number % 5 else "none",
    }  # fmt: skip
    if number % 2:
        content["gift"] = bool(number % 4 == 1)
    return json(content, b"order-%d" % number)


def baskets(number: int, chance: Random) -> NewRecord:
    """Nested objects in arrays, arrays in arrays, http status; closed."""
    items = [{"sku": f"{chance.randrange(10**8):08}", "tags": [["a"], []]} for _ in range(1 + spread(number, 3))]
    return json({"items": items, "reply": {"status": (200, 404, 500)[number % 3]}})


def prices(number: int, chance: Random) -> NewRecord:
    """A map by its number of names; the time in ms."""
    prices = {f"item {number} {one}": spread(number, 500) for one in range(3)}
    return json({"at": SENT_AT + 977 * number, "prices": prices}, b"%012d" % number)


def tombstones(number: int, chance: Random) -> NewRecord:
    key = uuid(chance).encode()
    return NewRecord(None, key) if number % 10 == 0 else json({"name": ("ann", "bob")[number % 2]}, key)


def avro(number: int, chance: Random) -> bytes:
    out = BytesIO()
    fastavro.schemaless_writer(out, AVRO, {"id": -1 - number, "note": None if number % 3 else words(chance)})
    return out.getvalue()


def avro_by_id(number: int, chance: Random) -> NewRecord:
    return NewRecord(struct.pack(">bI", 0, 7 + number % 2) + avro(number, chance), b"%d" % number)


GUID = UUID("0198f5ba-5b67-4e2e-a2a8-0f5b8c8f2a11")


def avro_by_header(number: int, chance: Random) -> NewRecord:
    return NewRecord(avro(number, chance), None, (Header("__value_schema_id", b"\1" + GUID.bytes),))


def json_by_id(number: int, chance: Random) -> NewRecord:
    return NewRecord(struct.pack(">bI", 0, 40) + orjson.dumps({"n": spread(number, 99)}), None)


def protobuf_by_id(number: int, chance: Random) -> NewRecord:
    text = words(chance).encode()[:100]
    return NewRecord(
        struct.pack(">bI", 0, 12) + b"\0\x08" + bytes([number % 100]) + b"\x12" + bytes([len(text)]) + text, None
    )


def container(number: int, chance: Random) -> NewRecord:
    out = BytesIO()
    fastavro.writer(out, AVRO, [{"id": number, "note": None}])
    return NewRecord(out.getvalue(), None)


def texts(number: int, chance: Random) -> NewRecord:
    """Text, with a header that is always there and one that sometimes is."""
    headers = [Header("trace-id", uuid(chance).replace("-", "").encode() if number else b"0" * 32)]
    if number % 4 == 0:
        headers.append(Header("source", (b"web", b"app")[number % 8 == 0]))
    return NewRecord(words(chance).encode(), f"user {chance.choice(WORDS)}".encode(), headers)


def integers(number: int, chance: Random) -> NewRecord:
    return NewRecord(struct.pack(">i", number), struct.pack(">q", 10**9 + number))


def large(number: int, chance: Random) -> NewRecord:
    size = 2_000_000 if number == 1001 else 100
    return json({"text": "x y" * (size // 3)}, b"k%d" % (number % 100))


def mixed(number: int, chance: Random) -> NewRecord:
    """One record in a thousand is otherwise, each in another way."""
    good = {"id": number % 50, "state": ("on", "off")[number % 2]}
    match number:
        case 100:
            return NewRecord(b"oops", b"dev-1", [Header("v", b"1")])
        case 200:
            return json({**good, "id": 10**9}, b"dev-2", (Header("v", b"1"),))
        case 300:
            return json({"id": 7}, b"dev-3", (Header("v", b"1"),))
        case 400:
            return json(good, b"dev-4")
    return json(good, b"dev-%d" % number, (Header("v", b"1"),))


def late(number: int, chance: Random) -> NewRecord:
    """Timestamps up to two minutes before the append, and five seconds after it."""
    return NewRecord(b"a b", None, (), 10_000 - number * 32)


def regions(number: int, chance: Random) -> NewRecord:
    """Keys of two templates, or null; values that are JSON texts."""
    key = None if number % 5 == 0 else f"{('eu', 'us')[number % 2]}-{number}".encode()
    return NewRecord(orjson.dumps(("NEW", "PAID")[number % 2]), key)


def events(number: int, chance: Random) -> NewRecord:
    """A key that is JSON; values of one of two types."""
    key = orjson.dumps({"tenant": ("a", "b")[number % 2]})
    return NewRecord(orjson.dumps({"v": number % 7 if number % 2 else "many"}), key)


def obj(properties: dict[str, Any], *optional: str, **more: Any) -> dict[str, Any]:
    required = sorted(properties.keys() - set(optional))
    return {"type": "object", "properties": properties, "required": required, **more}


TOPICS = (
    Known(
        "orders", orders, "JSON", "text",
        {
            "value": {"type": "json_schema", "file": "schemas/orders-value.json", "allow_null": False},
            "key": {"type": "key", "pattern": "order-[0-9]+"},
            "sizes": {"type": "limits", "max_key_bytes": 64, "max_value_bytes": 256},
            "time": TIME,
        },
        obj({
            "amount": {"type": "number", "minimum": 0, "maximum": 250},
            "day": {"type": "string", "format": "date", "pattern": f"^{PATTERNS['date']}$"},
            "gift": {"type": "boolean"},
            "id": UUID_SCHEMA,
            "note": {"type": ["string", "null"], "enum": ["none", None]},
            "quantity": {"type": "integer", "minimum": 1, "maximum": 10},
            "status": {"type": "string", "enum": ["NEW", "PAID", "SENT"]},
        }, "gift"),
    ),
    Known(
        "baskets", baskets, "JSON", "null",
        {
            "value": {"type": "json_schema", "file": "schemas/baskets-value.json", "allow_null": False},
            "headers": {"type": "headers", "allowed": []},
            "sizes": {"type": "limits", "max_value_bytes": 256, "max_headers": 0},
            "time": TIME,
        },
        obj({
            "items": {
                "type": "array",
                "items": obj({
                    "sku": {"type": "string", "pattern": "^[0-9]{8}$"},
                    "tags": {
                        "type": "array", "minItems": 2, "maxItems": 2,
                        "items": {"type": "array", "items": {"type": "string", "enum": ["a"]}, "maxItems": 1},
                    },
                }, additionalProperties=False),
                "minItems": 1, "maxItems": 4,
            },
            "reply": obj({"status": {"type": "integer", "enum": [200, 404, 500]}}, additionalProperties=False),
        }, additionalProperties=False),
        options=Options(is_closed=True),
    ),
    Known(
        "prices", prices, "JSON", "text",
        {
            "value": {"type": "json_schema", "file": "schemas/prices-value.json", "allow_null": False},
            "key": {"type": "key", "pattern": "[0-9]{12}"},
            "time": TIME,
        },
        obj({
            "at": {"type": "integer"},
            "prices": {
                "type": "object", "additionalProperties": {"type": "integer"},
                "propertyNames": {"pattern": "^item [0-9]+ [0-9]+$"},
            },
        }),
        options=Options(with_ranges=False),
    ),
    Known(
        "tombstones", tombstones, "JSON", "text",
        {
            "value": {"type": "json_schema", "file": "schemas/tombstones-value.json"},
            "key": {"type": "key", "pattern": PATTERNS["uuid"]},
            "sizes": {"type": "limits", "max_key_bytes": 64, "max_value_bytes": 64},
            "time": TIME,
        },
        obj({"name": {"type": "string", "enum": ["ann", "bob"]}}),
    ),
    Known(
        "avro", avro_by_id, "Avro, after the id of its schema", "text",
        {
            "value": {"type": "schema", "require": "id", "forms": ["confluent"], "allow_null": False},
            "key": {"type": "key", "pattern": "[0-9]+"},
            "sizes": {"type": "limits", "max_key_bytes": 64, "max_value_bytes": 128},
            "time": TIME,
        },
        ids={"7": RECORDS // 2, "8": RECORDS // 2},
    ),
    Known(
        "guids", avro_by_header, "Avro, with the id of its schema in a header", "null",
        {
            "value": {"type": "schema", "require": "id", "forms": ["confluent_header"], "allow_null": False},
            "headers": {"type": "headers", "required": ["__value_schema_id"]},
            "sizes": {"type": "limits", "max_value_bytes": 128},
            "time": TIME,
        },
        ids={str(GUID): RECORDS}, headers=("__value_schema_id: always there, 4,000 not UTF-8",),
    ),
    Known(
        "framed", json_by_id, "JSON, after the id of its schema", "null",
        {
            "value": {
                "type": "json_schema", "file": "schemas/framed-value.json", "prefix": "confluent", "allow_null": False,
            },
            "sizes": {"type": "limits", "max_value_bytes": 64},
            "time": TIME,
        },
        obj({"n": {"type": "integer", "minimum": 0, "maximum": 99}}),
        ids={"40": RECORDS},
    ),
    Known(
        "messages", protobuf_by_id, "Protobuf, after the id of its schema", "null",
        {
            "value": {"type": "schema", "require": "id", "forms": ["confluent"], "allow_null": False},
            "sizes": {"type": "limits", "max_value_bytes": 128},
            "time": TIME,
        },
        ids={"12": RECORDS},
    ),
    Known(
        "containers", container, "Avro container", "null",
        {"sizes": {"type": "limits", "max_value_bytes": 256}, "time": TIME},
    ),
    Known(
        "texts", texts, "text", "text",
        {
            "key": {"type": "key"},
            "headers": {
                "type": "headers", "required": ["trace-id"],
                "values": {"source": "app|web", "trace-id": "[0-9a-f]{32}"},
            },
            "sizes": {"type": "limits", "max_key_bytes": 64, "max_value_bytes": 128},
            "time": TIME,
        },
        headers=("source: in 1,000 of 4,000, UTF-8", "trace-id: always there, UTF-8"),
    ),
    Known(
        "integers", integers, "int32", "int64",
        {
            "key": {"type": "key"},
            "sizes": {"type": "limits", "max_key_bytes": 64, "max_value_bytes": 64},
            "time": TIME,
        },
    ),
    Known(
        "large", large, "JSON", "text",
        {
            "value": {"type": "json_schema", "file": "schemas/large-value.json", "allow_null": False},
            "key": {"type": "key", "pattern": "k[0-9]+"},
            "sizes": {"type": "limits", "max_key_bytes": 64, "max_value_bytes": "2MiB"},
            "time": TIME,
        },
        obj({"text": {"type": "string", "minLength": 99, "maxLength": 1_999_998}}),
    ),
    Known(
        "mixed", mixed, "JSON", "text",
        {
            "value": {"type": "json_schema", "file": "schemas/mixed-value.json", "allow_null": False},
            "key": {"type": "key", "pattern": "dev-[0-9]+"},
            "headers": {"type": "headers", "required": ["v"], "values": {"v": "1"}},
            "sizes": {"type": "limits", "max_key_bytes": 64, "max_value_bytes": 64},
            "time": TIME,
        },
        obj({
            "id": {"type": "integer", "minimum": 0, "maximum": 49},
            "state": {"type": "string", "enum": ["off", "on"]},
        }),
        headers=("v: in 3,999 of 4,000, UTF-8",), rejected=4, options=Options(tolerance=0.001),
    ),
    Known(
        "late", late, "text", "null",
        {
            "sizes": {"type": "limits", "max_value_bytes": 64},
            "time": {**TIME, "before_max": "5m", "after_max": "1m"},
        },
        append_time=APPENDED_AT,
    ),
    Known(
        "regions", regions, "JSON", "text",
        {
            "value": {"type": "json_schema", "file": "schemas/regions-value.json", "allow_null": False},
            "key": {"type": "key", "required": False, "pattern": "(eu-[0-9]+|us-[0-9]+)"},
            "sizes": {"type": "limits", "max_key_bytes": 64, "max_value_bytes": 64},
            "time": TIME,
        },
        {"type": "string", "enum": ["NEW", "PAID"]},
    ),
    Known(
        "events", events, "JSON", "JSON",
        {
            "value": {"type": "json_schema", "file": "schemas/events-value.json", "allow_null": False},
            "key": {"type": "json_schema", "file": "schemas/events-key.json", "part": "key", "allow_null": False},
            "key-form": {"type": "key"},
            "sizes": {"type": "limits", "max_key_bytes": 64, "max_value_bytes": 64},
            "time": TIME,
        },
        obj({"v": {"type": ["string", "integer"], "minLength": 4, "maxLength": 4, "minimum": 0, "maximum": 6}}),
        obj({"tenant": {"type": "string", "enum": ["a", "b"]}}),
    ),
)  # fmt: skip
BY_NAME = {one.name: one for one in TOPICS}


def exceptions(known: Known) -> Iterator[int]:
    """The numbers of the records that are otherwise."""
    if known.rejected:
        yield from (100, 200, 300, 400)
