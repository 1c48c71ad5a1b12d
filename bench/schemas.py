"""The cost of a record of 1 KB under each depth of the policy `schema`, and under schemas in files, next to
decompression and checksum, which cannot be avoided, and to other readers of the same bytes.

usage: schemas.py [--reps N] [--only TEXT]

How to read it: bench/README.md
"""

from __future__ import annotations

import argparse
import io
import json
import random
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, cast
from uuid import UUID

import fastavro
import orjson
from crc32c import crc32c
from google.protobuf.json_format import ParseDict
from google.protobuf.message_factory import GetMessageClass
from json_values import WORDS, order
from records import ATTRIBUTES_AT, LIMIT, RECORDS_AT, ROUND_S, cpu_ns, verdict
from rig.report import Row, table

from kafka_sidecar.codec import compiled
from kafka_sidecar.codec.records import Codec, Header, NewRecord, batches, build_batch
from kafka_sidecar.codec.records.compression import decompress
from kafka_sidecar.plugins.settings import FileSettings
from kafka_sidecar.policies.catalog import PolicyCatalog, PolicySettings
from kafka_sidecar.policies.contract import TopicMetadata
from kafka_sidecar.proxy.runtime.program import configure_allocator
from kafka_sidecar.schemas.avro.schema import AvroSchema
from kafka_sidecar.schemas.ids import SchemaId
from kafka_sidecar.schemas.json_schema import JsonSchema
from kafka_sidecar.schemas.protobuf.schema import ProtobufSchema
from kafka_sidecar.schemas.registry import Answer, Question, Registry, SchemaOf, VersionsOf

TOPIC = TopicMetadata("orders", 0, bytes(16), "")
COUNT, SIZE = 1000, 1000  # records, and bytes of each
GUID = UUID(int=7)
AVRO_ID, JSON_ID, PROTOBUF_ID = 7, 8, 9
TEXT: dict[str, Any] = {"type": "string", "maxLength": 40}
LINE = {
    "type": "object",
    "required": ["sku", "n", "price"],
    "properties": {"sku": {**TEXT, "pattern": "^[0-9a-f]{8}$"}, "n": {"type": "integer", "minimum": 1},
                   "price": {"type": "number", "exclusiveMinimum": 0}},
}  # fmt: skip
ORDER = {
    "type": "object",
    "required": ["id", "at", "user", "lines", "paid"],
    "properties": {
        "id": {**TEXT, "pattern": "^[0-9a-f]{16}$"},
        "at": {"type": "integer", "minimum": 0},
        "user": {"type": "object", "properties": {"id": {"type": "integer"}, "city": {"enum": list(WORDS)}}},
        "lines": {"type": "array", "items": LINE, "minItems": 1, "maxItems": 5},
        "paid": {"type": "boolean"},
    },
    "additionalProperties": False,
}
JSON = {"title": "Orders", "type": "object", "properties": {"orders": {"type": "array", "items": ORDER}, "note": {}}}
AVRO = {
    "type": "record", "name": "Orders", "fields": [
        {"name": "orders", "type": {"type": "array", "items": {"type": "record", "name": "Order", "fields": [
            {"name": "id", "type": "string"},
            {"name": "at", "type": "long"},
            {"name": "user", "type": {"type": "record", "name": "User", "fields": [
                {"name": "id", "type": "int"}, {"name": "city", "type": "string"}]}},
            {"name": "lines", "type": {"type": "array", "items": {"type": "record", "name": "Line", "fields": [
                {"name": "sku", "type": "string"}, {"name": "n", "type": "int"},
                {"name": "price", "type": "double"}]}}},
            {"name": "paid", "type": "boolean"}]}}},
        {"name": "note", "type": "string"}],
}  # fmt: skip

PROTOBUF = """syntax = "proto3";
message Orders { repeated Order orders = 1; string note = 2; }
message Order { string id = 1; int64 at = 2; User user = 3; repeated Line lines = 4; bool paid = 5; }
message User { int32 id = 1; string city = 2; }
message Line { string sku = 1; int32 n = 2; double price = 3; }
"""


class KnownRegistry(Registry):
    """One whose answers are all known."""

    def __init__(self, answers: Mapping[Question, Answer]) -> None:
        self.answers = answers

    def get(self, question: Question, is_doubted: bool = False) -> Answer:
        return self.answers[question]


@dataclass(frozen=True, slots=True)
class Case:
    """Records and the policy that they pass, with limits in nanoseconds a record, or against decompression."""

    title: str
    values: list[bytes]
    policy: str
    settings: Mapping[str, Any]
    header: bytes | None = None  # that all have, as the id of their schema
    ratio: float | None = None
    ns: float | None = None
    other: Callable[[bytes], object] | None = None  # another reader of one value, and its name
    other_name: str = ""


def contents(size: int, chance: random.Random) -> dict[str, Any]:
    """Two orders, and a note that fills the rest."""
    found: dict[str, Any] = {"orders": [order(chance), order(chance)], "note": ""}
    room = max(0, size - len(json.dumps(found, separators=(",", ":"))))
    return {**found, "note": " ".join(chance.choices(WORDS, k=room))[:room]}


def cases(folder: Path) -> Iterator[Case]:
    chance = random.Random(1)
    objects = [contents(SIZE, chance) for _ in range(COUNT)]
    texts = [json.dumps(one, separators=(",", ":")).encode() for one in objects]
    parsed = fastavro.parse_schema(AVRO)
    data = [_written(parsed, {**one, "note": _filled(parsed, one, chance)}) for one in objects]
    (folder / "orders.avsc").write_text(json.dumps(AVRO))
    (folder / "orders.json").write_text(json.dumps(JSON))
    (folder / "orders.proto").write_text(PROTOBUF)
    in_header = SchemaId("guid", str(GUID))
    avro_id, json_id, protobuf_id = (SchemaId("id", number) for number in (AVRO_ID, JSON_ID, PROTOBUF_ID))
    avro, text = AvroSchema.parse(json.dumps(AVRO)), JsonSchema(json.dumps(JSON))
    subjects = frozenset({("orders-value", 1)})
    answers: dict[Question, Answer] = {SchemaOf(avro_id): avro, SchemaOf(in_header): avro, SchemaOf(json_id): text}
    protobuf = ProtobufSchema.parse(PROTOBUF)
    messages = list(_messages(protobuf, objects, chance))
    answers[SchemaOf(protobuf_id)] = protobuf
    answers |= {VersionsOf(one): subjects for one in (avro_id, in_header, json_id, protobuf_id)}
    registry = KnownRegistry(answers)

    def settings(**more: Any) -> FileSettings:
        return FileSettings(more, folder, {"main": registry})

    framed = [b"\0" + AVRO_ID.to_bytes(4) + one for one in data]
    yield Case("json", texts, "json", {})
    yield Case("schema: id", framed, "schema", {"require": "id"}, ratio=1.2)
    yield Case("schema: known", framed, "schema", settings(registry="main", require="known"), ratio=1.2)
    yield Case("schema: subject", framed, "schema", settings(registry="main", require="subject"), ratio=1.2)
    yield Case(
        "schema: subject, id in a header", data, "schema", settings(registry="main", require="subject"),
        header=b"\1" + GUID.bytes, ratio=1.2,
    )  # fmt: skip

    def read_avro(one: bytes) -> object:
        return fastavro.schemaless_reader(io.BytesIO(one), parsed)

    yield Case("schema: conforms, Avro", framed, "schema", settings(registry="main"))
    yield Case("avro", data, "avro", settings(file="orders.avsc"), other=read_avro, other_name="fastavro")
    framed_messages = [b"\0" + PROTOBUF_ID.to_bytes(4) + b"\0" + one for one in messages]
    yield Case("schema: conforms, Protobuf", framed_messages, "schema", settings(registry="main"))
    read_message = GetMessageClass(protobuf.descriptor).FromString
    yield Case(
        "protobuf", messages, "protobuf", settings(file="orders.proto"), other=read_message, other_name="protobuf (upb)"
    )
    framed_texts = [b"\0" + JSON_ID.to_bytes(4) + one for one in texts]
    yield Case("schema: conforms, JSON Schema", framed_texts, "schema", settings(registry="main"), ns=6000)
    yield Case(
        "json_schema", texts, "json_schema", settings(file="orders.json"), ns=6000, other=orjson.loads,
        other_name="orjson.loads",
    )  # fmt: skip


def _messages(schema: ProtobufSchema, objects: Sequence[Mapping[str, Any]], chance: random.Random) -> Iterator[bytes]:
    kind = GetMessageClass(schema.descriptor)
    for one in objects:
        message = ParseDict({**one, "note": ""}, kind())
        room = max(0, SIZE - message.ByteSize())
        message.note = " ".join(chance.choices(WORDS, k=room))[:room]
        yield message.SerializeToString()


def _written(parsed: Any, value: Any) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, parsed, value)
    return stream.getvalue()


def _filled(parsed: Any, one: Any, chance: random.Random) -> str:
    room = max(0, SIZE - len(_written(parsed, {**one, "note": ""})))
    return " ".join(chance.choices(WORDS, k=room))[:room]


def row(case: Case, reps: int) -> Row:
    headers = () if case.header is None else (Header(b"__value_schema_id", case.header),)
    data = build_batch([NewRecord(value, b"key", headers) for value in case.values], codec=Codec.LZ4)
    plan = PolicyCatalog({"it": PolicySettings(case.policy, settings=case.settings)}).plan("it")

    def alone() -> None:
        view = memoryview(data)
        crc32c(view[ATTRIBUTES_AT:])
        decompress(Codec.LZ4, view[RECORDS_AT:], LIMIT)

    def whole() -> None:
        (one,) = batches(data)
        assert one.crc_is_right()
        assert plan.validate(TOPIC, one, LIMIT) == []

    def other() -> None:
        read = cast("Callable[[bytes], object]", case.other)
        for one in case.values:
            read(one)

    steps = {"alone": alone, "whole": whole} | ({"other": other} if case.other else {})
    times = {name: max(1, int(ROUND_S * 1e9 / cpu_ns(step, 1))) for name, step in steps.items()}
    runs = [{name: cpu_ns(step, times[name]) / COUNT for name, step in steps.items()} for _ in range(reps)]
    ratio = median(run["whole"] / run["alone"] for run in runs)
    added = median(run["whole"] - run["alone"] for run in runs)
    cells = {
        "decompress + CRC": f"{median(run['alone'] for run in runs):.0f}",
        "and the policy": f"{median(run['whole'] for run in runs):.0f} ({ratio:.2f}x){verdict(ratio, case.ratio)}",
        "the policy": f"{added:.0f}{verdict(added, case.ns)}",
        "another reader": f"{median(run['other'] for run in runs):.0f} ({case.other_name})" if case.other else "",
    }
    targets = [f"<= {case.ratio}x"] if case.ratio else []
    targets += [f"<= {case.ns:.0f} ns"] if case.ns else []
    return Row(case.title, cells, ", ".join(targets))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--reps", type=int, default=9, help="repetitions; default: %(default)s")
    parser.add_argument("--only", default="", metavar="TEXT", help="only rows with this in their name")
    options = parser.parse_args()
    configure_allocator()  # as in the sidecar, or page faults would dominate
    with tempfile.TemporaryDirectory() as folder:
        rows = [row(case, options.reps) for case in cases(Path(folder)) if options.only in case.title]
    print(f"{compiled.in_use()}; {COUNT} records of about {SIZE} bytes, lz4. CPU ns per record, medians.\n")
    print(table(rows, ["decompress + CRC", "and the policy", "the policy", "another reader"]))


if __name__ == "__main__":
    main()
