"""Records that are messages of a Protobuf schema; the wire format itself is tested in tests/schemas/protobuf."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.schema_registry.schema_registry_client import SchemaRegistryClient
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.message_factory import GetMessageClass
from support.protobuf_values import ORDER

from kafka_sidecar.policies.builtin.protobuf import Protobuf
from kafka_sidecar.policies.catalog import PolicyCatalog, PolicySettings
from kafka_sidecar.policies.contract import Hints
from kafka_sidecar.schemas.protobuf.errors import ProtobufSchemaError
from kafka_sidecar.schemas.protobuf.schema import ProtobufSchema

Refusals = Callable[..., list[tuple[int, str, str]]]
UNLIKE = "Topic orders requires record values to be of the schema shop.Order: "
GOOD, BAD = b"\x08\x07\x3a\x04card", b"\x08\x07\x3a\x04ca\xffd"


@pytest.fixture
def schema(tmp_path: Path) -> str:
    file = tmp_path / "order.proto"
    file.write_text(ORDER)
    return str(file)


class FakeRegistry(SchemaRegistryClient):
    """What Confluent's serializer asks, without a network."""

    def __init__(self) -> None:
        self.registered: list[Any] = []

    def __del__(self) -> None:
        pass

    def register_schema_full_response(self, subject_name: str, schema: Any, *_: Any, **__: Any) -> Any:
        self.registered.append(schema)
        return SimpleNamespace(schema_id=7, guid=None, schema=schema, subject=subject_name, version=1)

    def config(self) -> dict[str, Any]:
        return {}


def serialized(message: Any, registry: FakeRegistry) -> bytes:
    settings = {"subject.name.strategy.type": "TOPIC", "skip.known.types": True}
    serializer = ProtobufSerializer(type(message), registry, settings)
    return bytes(serializer(message, SerializationContext("orders", MessageField.VALUE)))


def test_what_confluents_serializer_writes_and_registers_is_read(schema: str, refusals: Refusals) -> None:
    registry, own = FakeRegistry(), ProtobufSchema.parse(ORDER)
    types = [GetMessageClass(own.with_message(name).descriptor) for name in ("Order", "Refund", "Order.Item")]
    values = [serialized(types[0](id=7, card="card"), registry), serialized(types[1](id=7), registry)]
    values.append(serialized(types[2](sku="x"), registry))
    assert [value[5:8] for value in values] == [b"\0\x08\x07", b"\2\2\x08", b"\4\0\2"]
    settings = {"file": schema, "prefix": "confluent", "unknown_fields": "reject"}
    assert refusals("protobuf", settings, *({"value": value} for value in values)) == []
    registered = ProtobufSchema.parse(registry.registered[0].schema_str)  # a descriptor in base64
    assert [registered.record_name(value, 5, len(value), framed=True) for value in values] == [
        "shop.Order",
        "shop.Refund",
        "shop.Order.Item",
    ]
    found = refusals("protobuf", settings, *({"value": value[:-1] + b"\xff"} for value in values))
    assert [(index, message.rpartition("shop.Order: ")[2]) for index, _, message in found] == [
        (0, "$.card: text that is not UTF-8 at byte 8"),
        (1, "$.id: ends too early at byte 4"),
        (2, "$.sku: text that is not UTF-8 at byte 5"),
    ]


def test_a_record_of_another_schema_is_rejected_with_path_and_rule(schema: str, refusals: Refusals) -> None:
    assert refusals("protobuf", {"file": schema}, {"value": GOOD}, {"value": BAD}, {"value": None}, {"value": b""}) == [
        (1, "not_of_schema", f"{UNLIKE}$.card: text that is not UTF-8 at byte 6"),
    ]


def test_the_key_can_be_validated_and_null_forbidden(schema: str, refusals: Refusals) -> None:
    settings = {"file": schema, "part": "key", "allow_null": False, "unknown_fields": "reject"}
    assert refusals("protobuf", settings, {"key": GOOD}, {"key": None}, {"key": b"\x0a\x00"}) == [
        (1, "null_key", "Topic orders requires record keys not to be null"),
        (
            2,
            "not_of_schema",
            f"{UNLIKE.replace('values', 'keys')}$: a field that the schema does not have at byte 0",
        ),
    ]


def test_the_id_of_confluents_serializers_is_stepped_over(schema: str, refusals: Refusals) -> None:
    settings = {"file": schema, "prefix": "confluent"}
    prefix = b"\0\0\0\0\7\0"
    values = [prefix + GOOD, GOOD, b"\0\0\0", prefix + BAD, prefix[:-1], prefix]
    found = refusals("protobuf", settings, *({"value": value} for value in values))
    assert [(index, reason) for index, reason, _ in found] == [
        (1, "no_schema_id"),
        (2, "no_schema_id"),
        (3, "not_of_schema"),
        (4, "not_of_schema"),
    ]


def test_a_type_can_be_chosen(schema: str, refusals: Refusals) -> None:
    settings = {"file": schema, "prefix": "confluent", "message": "Refund"}
    values = [b"\0\0\0\0\7\2\2\x08\1", b"\0\0\0\0\7\0\x08\1"]
    found = refusals("protobuf", settings, *({"value": value} for value in values))
    assert found == [
        (
            1,
            "not_of_schema",
            f"{UNLIKE.replace('shop.Order', 'shop.Refund')}$: another message than shop.Refund at byte 0",
        )
    ]
    assert refusals("protobuf", {"file": schema, "message": "shop.Refund"}, {"value": b"\x08\1"}) == []


def test_types_of_other_files_are_found_by_their_paths(tmp_path: Path, refusals: Refusals) -> None:
    (tmp_path / "types" / "shop").mkdir(parents=True)
    item = tmp_path / "types" / "shop" / "item.proto"
    item.write_text('syntax = "proto3"; package shop; message Item { string sku = 1; }')
    root = tmp_path / "root.proto"
    root.write_text('syntax = "proto3"; import "shop/item.proto"; message Root { repeated shop.Item items = 1; }')
    settings = {"file": str(root), "references": str(tmp_path / "types")}
    found = refusals("protobuf", settings, {"value": b"\x0a\x03\x0a\x01x"}, {"value": b"\x0a\x03\x0a\x01\xff"})
    assert [(index, message.rpartition("Root: ")[2]) for index, _, message in found] == [
        (1, "$.items[0].sku: text that is not UTF-8 at byte 4")
    ]
    catalog = PolicyCatalog({"it": PolicySettings("protobuf", settings=settings)})
    assert catalog.files() == {root, tmp_path / "types", item}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "needs a schema: configure it under policies: with a file"),
        ({"file": "/nowhere.proto"}, "file: /nowhere.proto cannot be read: No such file or directory"),
        ({"file": "order.txt"}, r"file: .*order.txt: line 1: a declaration is expected, not '\{'"),
        ({"file": "order.proto", "message": "Nothing"}, r"file: .*order.proto: declares no message 'Nothing'"),
        ({"file": "order.proto", "unknown_fields": "maybe"}, "unknown_fields: write 'allow' or 'reject'"),
        ({"file": "order.proto", "max_depth": "101"}, "max_depth"),
    ],
)
def test_a_wrong_setting_is_one_line(settings: dict[str, str], message: str, schema: str, tmp_path: Path) -> None:
    (tmp_path / "order.txt").write_text("{")
    given = {name: str(tmp_path / text) if text.startswith("order") else text for name, text in settings.items()}
    with pytest.raises(ValueError, match=message) as error:
        PolicyCatalog({"it": PolicySettings("protobuf", settings=given)})
    assert "\n" not in str(error.value)


def test_it_reads_the_part_that_it_validates(schema: str) -> None:
    plan = PolicyCatalog({"it": PolicySettings("protobuf", settings={"file": schema, "part": "key"})}).plan("it")
    assert plan.hints == Hints(access_key_bytes=-1)


@pytest.mark.parametrize(
    ("text", "records"),
    [
        ('syntax = "proto3"; message A { string s = 1; }', 10_000),
        ('syntax = "proto2"; message A { required string s = 1; }', 1000),
        (ORDER, 1000),  # a type comes after a map
    ],
)
def test_a_schema_whose_rejections_are_confirmed_in_python_goes_to_a_thread_sooner(
    text: str, records: int, schema: str
) -> None:
    Path(schema).write_text(text)
    policy = Protobuf()
    policy.configure({"file": schema})
    assert policy.records_at_once == records


def test_without_the_extra_the_message_says_so(monkeypatch: pytest.MonkeyPatch, schema: str) -> None:
    monkeypatch.setattr("kafka_sidecar.schemas.protobuf.schema.message_factory", None)
    with pytest.raises(ProtobufSchemaError, match=r"pip install '\.\[schemas\]'"):
        ProtobufSchema.parse(ORDER)
    with pytest.raises(ValueError, match="Protobuf is not installed"):
        PolicyCatalog({"it": PolicySettings("protobuf", settings={"file": schema})})
