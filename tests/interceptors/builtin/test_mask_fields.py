"""mask_fields: JSON fields that are hidden from consumers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.avro_values import ITEM, ORDER, VALUE, written
from support.schema_registry import RegistryInMemory

from kafka_sidecar.codec.records import Records, batches, build_batch
from kafka_sidecar.interceptors.catalog import InterceptorCatalog, InterceptorSettings
from kafka_sidecar.interceptors.consuming import FailClosedError
from kafka_sidecar.interceptors.contract import Context
from kafka_sidecar.interceptors.guard import Limits, ResolveRequired
from kafka_sidecar.plugins.settings import FileSettings
from kafka_sidecar.schemas.avro.schema import AvroSchema
from kafka_sidecar.schemas.ids import SchemaId
from kafka_sidecar.schemas.json_paths import JsonPaths
from kafka_sidecar.schemas.json_schema import JsonSchema
from kafka_sidecar.schemas.protobuf.schema import ProtobufSchema
from kafka_sidecar.schemas.registry import SchemaOf

Consumed = Callable[..., list[bytes | None]]
CARD = {"fields": ["$.card.number"]}
SECRET = "4000123456789010"


@pytest.fixture
def consumed(a_batch: Callable[..., Records], context: Callable[..., Context], report: Any) -> Consumed:
    """The values of a topic's records as a consumer gets them."""

    def of(settings: Mapping[str, Any], *values: bytes | str | None, limits: Limits | None = None) -> list[Any]:
        named = InterceptorSettings("mask_fields", "mask", settings=settings, limits=limits or Limits())
        catalog = InterceptorCatalog([named], report)
        consumers = catalog.consumers("customers")
        assert consumers is not None
        (empty,) = batches(build_batch([]))
        records = a_batch(*({"value": one.encode() if isinstance(one, str) else one} for one in values))
        left = consumers.consume(context(), "customers", 0, empty.header, records)
        of.records, of.left, of.catalog = records, left, catalog  # type: ignore[attr-defined]
        assert report.failures == []
        return [record.value for record in left]

    return of


def test_a_field_is_masked_and_every_other_byte_stays(consumed: Consumed) -> None:
    value = '{ "id":12345678901234567890, "card": {"number" : "4000", "x": 1.50E+2}, "id": 1,"s":"\\u00fc" }\n'
    assert consumed(CARD, value) == [value.replace('"4000"', '"***"').encode()]


def test_records_without_masked_fields_are_unchanged(consumed: Consumed) -> None:
    consumed(CARD, '{"card": {}}', None, "[]", '{"card": {"number": "***"}}', '{"card": {"number": null}}')
    assert consumed.left is consumed.records  # type: ignore[attr-defined]


def test_a_whole_object_can_be_masked(consumed: Consumed) -> None:
    assert consumed({"fields": ["$.card"]}, '{"card": {"number": [1, {}]}, "a": 1}') == [b'{"card": "***", "a": 1}']


def test_duplicate_and_escaped_keys_are_masked_too(consumed: Consumed) -> None:
    value = '{"card": {"number": "A", "number": "B"}, "c\\u0061rd": {"numbe\\u0072": "C"}, "card": 1}'
    (masked,) = consumed(CARD, value)
    assert masked is not None
    assert masked.count(b"***") == 3


def test_a_null_field_stays_null_as_in_kafka_connects_mask_field(consumed: Consumed) -> None:
    assert consumed({"fields": ["$.a", "$.b"]}, '{"a": null, "b": 1}') == [b'{"a": null, "b": "***"}']


@pytest.mark.parametrize(
    ("mask", "field", "expected"),
    [
        ("gone", '"x"', '"gone"'),
        ("", '"x"', '""'),
        ('ü"', '"x"', r'"ü\""'),
        (None, '"x"', "null"),
        ({"keep_last": 4}, f'"{SECRET}"', '"***9010"'),
        ({"keep_last": 4}, "4000123456789010", '"***9010"'),
        ({"keep_last": 4}, '"12345678"', '"***5678"'),
        ({"keep_last": 4}, '"1234567"', '"***"'),
        ({"keep_last": 1}, r'"\u00e9\u00fc"', '"***ü"'),
        ({"keep_last": 1}, r'"a\""', r'"***\""'),
        ({"keep_last": 1}, '{"a": 1}', '"***"'),
        ({"keep_last": 1}, "[1, 2]", '"***"'),
        ({"keep_last": 1}, "false", '"***"'),
        ({"keep_last": 1}, "null", "null"),
    ],
)
def test_the_replacement_of_a_field_is_configurable(mask: Any, field: str, expected: str, consumed: Consumed) -> None:
    assert consumed({"fields": ["$.a"], "with": mask}, f'{{"a": {field}}}') == [f'{{"a": {expected}}}'.encode()]


UNREADABLE = [
    SECRET.encode(),
    f'"{SECRET}"'.encode(),
    b"",
    b"\xff",
    b'{"card": {"number": "4000"',
    b"\0\0\0\0\1{",
    b"\0{}",
]


def test_an_unreadable_value_is_hidden_by_default(consumed: Consumed) -> None:
    assert consumed(CARD, *UNREADABLE) == [b'"***"'] * len(UNREADABLE)
    assert consumed({**CARD, "with": None}, b"") == [b"null"]
    assert consumed({**CARD, "with": {"keep_last": 4}}, SECRET) == [b'"***"']


def test_an_unreadable_value_is_kept_or_dropped_if_configured(consumed: Consumed) -> None:
    assert consumed({**CARD, "unreadable": "keep"}, *UNREADABLE) == UNREADABLE
    assert consumed({**CARD, "unreadable": "drop"}, *UNREADABLE, "{}") == [b"{}"]


def test_a_tombstone_is_not_changed(consumed: Consumed) -> None:
    assert consumed({**CARD, "unreadable": "drop"}, None) == [None]


@pytest.mark.parametrize(("unreadable", "expected"), [("hide", [b'"***"']), ("keep", [b'"***"']), ("drop", [])])
def test_after_an_internal_error_the_value_is_hidden_or_dropped(
    unreadable: str, expected: list[bytes], consumed: Consumed, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: JsonPaths, text: bytes) -> None:
        raise RecursionError

    monkeypatch.setattr(JsonPaths, "spans", fail)
    assert consumed({**CARD, "unreadable": unreadable}, '{"card": {"number": "4000"}}') == expected


def test_mask_fields_is_never_disabled_for_being_slow(consumed: Consumed) -> None:
    value = '{"card": {"number": "4000"}}'
    consumed(CARD, value, limits=Limits(budget_s=0, failures=1))
    (guard,) = consumed.catalog.guards  # type: ignore[attr-defined]
    assert guard.over_budget
    assert not guard.is_disabled


def test_masked_fields_and_unreadable_values_are_counted(consumed: Consumed) -> None:
    consumed(CARD, '{"card": {"number": 1}}', '{"card": {"number": 2}}', "{}", "none", None)
    (figures,) = consumed.catalog.guards[0].interceptor.metrics()  # type: ignore[attr-defined]
    assert dict(figures.counters) == {("fields",): 2, ("unreadable",): 1}


anything = st.recursive(
    st.none() | st.integers() | st.just(SECRET) | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["pin", "a", "b"]), inner, max_size=3),
    max_leaves=15,
)


def without(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: "***" if name == "pin" and one is not None else without(one) for name, one in value.items()}
    return [without(one) for one in value] if isinstance(value, list) else value


@given(st.dictionaries(st.sampled_from(["pin", "a"]), anything, max_size=2), st.booleans())
def test_the_result_is_the_same_json_with_the_fields_replaced(value: Any, spaced: bool) -> None:
    from kafka_sidecar.interceptors.builtin.mask_fields import MaskFields
    from kafka_sidecar.interceptors.records import ConsumerRecord, ConsumerRecords

    mask = MaskFields()
    mask.configure({"fields": ["$..pin"]})
    text = json.dumps(value, indent=2 if spaced else None)
    (left,) = mask.on_consume(ConsumerRecords([ConsumerRecord("t", 0, 7, b"k", text.encode())]))
    assert left.value is not None
    assert json.loads(left.value) == without(value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "interceptor mask: has no effect: set fields"),
        ({"fields": ["card.number"]}, r"interceptor mask: fields: 'card\.number' names no field: write \$"),
        ({**CARD, "with": {"keep_last": 0}}, "with: write a text, null, or {keep_last: 4}"),
        ({**CARD, "with": 0}, "with: write a text, null, or {keep_last: 4}"),
        ({**CARD, "unreadable": "show"}, "unreadable: .*'hide', 'keep' or 'drop'"),
        (
            {**CARD, "wiht": "x"},
            r"wiht is not a setting; did you mean with\? the settings are fields",
        ),
    ],
)
def test_invalid_settings_are_rejected(settings: dict[str, Any], message: str, consumed: Consumed) -> None:
    with pytest.raises(ValueError, match=message):
        consumed(settings)


PREFIX = b"\0\0\0\0\7"


def test_json_after_the_id_of_a_schema_is_masked_and_the_id_stays(consumed: Consumed) -> None:
    value, masked = b'{"card": {"number": "4000"}}', b'{"card": {"number": "***"}}'
    for prefix in ({}, {"prefix": "confluent"}):
        assert consumed({**CARD, **prefix}, PREFIX + value) == [PREFIX + masked]
    assert consumed(CARD, value) == [masked]
    assert consumed({**CARD, "prefix": "confluent"}, value) == [b'"***"']
    assert consumed({**CARD, "prefix": "none"}, PREFIX + value, value) == [b'"***"', masked]


@pytest.fixture
def avro(tmp_path: Path) -> dict[str, str]:
    file = tmp_path / "order.avsc"
    file.write_text(json.dumps(ORDER))
    return {"language": "avro", "file": str(file)}


AVRO_FIELDS = ["$.id", "$.items[*].sku", "$.notes.*"]
MASKED = {
    **VALUE,
    "id": 9,
    "items": [{**ITEM, "sku": "***"}, {**ITEM, "sku": "***", "part_of": ITEM}],
    "notes": {"k": None, "l": "***"},
}
GOOD, EXPECTED = written(ORDER, VALUE), written(ORDER, MASKED)


@pytest.mark.parametrize(("prefix", "before"), [("none", b""), ("confluent", PREFIX)])
def test_fields_of_avro_values_are_masked_by_their_own_type(
    prefix: str, before: bytes, avro: dict[str, str], consumed: Consumed
) -> None:
    settings = {"fields": AVRO_FIELDS, "schema": avro, "prefix": prefix, "number": 9}
    assert consumed(settings, before + GOOD, None) == [before + EXPECTED, None]


def test_an_avro_value_that_is_not_of_the_schema_is_hidden_kept_or_dropped(
    avro: dict[str, str], consumed: Consumed
) -> None:
    settings = {"fields": AVRO_FIELDS, "schema": avro, "prefix": "confluent"}
    bad = [PREFIX + GOOD[:-1], GOOD, b""]
    assert consumed(settings, *bad) == [b'"***"'] * 3
    assert consumed({**settings, "unreadable": "keep"}, *bad) == bad
    assert consumed({**settings, "unreadable": "drop"}, *bad) == []


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"fields": ["$.items", "$.id"], "prefix": "none"}, r"fields: \$.items: an array cannot be masked"),
        ({"with": None, "prefix": "none"}, r"fields: \$.id: cannot be null; \$.items\[\*\].sku: cannot be null"),
        ({"number": 0.5, "prefix": "none"}, r"\$.id: 0.5 is not a whole number of 64 bits"),
        ({}, "prefix: write none or confluent"),
        ({"schema": {"file": "a"}}, "schema: write the language of the file"),
        ({"schema": {"registry": "other"}}, "schema.registry: there is no schema registry 'other'"),
        ({"prefix": "confluent", "schema": {"registry": "main"}}, "prefix: remove it"),
    ],
)
def test_what_cannot_be_masked_is_a_mistake_of_the_configuration(
    settings: dict[str, Any], message: str, avro: dict[str, str], consumed: Consumed
) -> None:
    given = FileSettings({"fields": AVRO_FIELDS, "schema": avro, **settings}, Path(), {"main": RegistryInMemory({})})
    with pytest.raises(ValueError, match=message) as error:
        consumed(given)
    assert "\n" not in str(error.value)


def test_values_of_a_json_schema_are_masked_as_other_json(tmp_path: Path, consumed: Consumed) -> None:
    file = tmp_path / "card.json"
    file.write_text('{"type": "object"}')
    settings = {**CARD, "schema": {"language": "json_schema", "file": str(file)}}
    value = b'{"card": {"number": "4000"}}'
    assert consumed(settings, PREFIX + value, value) == [
        PREFIX + value.replace(b"4000", b"***"),
        value.replace(b"4000", b"***"),
    ]


class InTime:
    """Consumes values as a sidecar does: what the interceptor has to wait for is fetched, then it is called again."""

    def __init__(self, consumed: Consumed, registry: RegistryInMemory, **settings: Any) -> None:
        self.consumed, self.registry = consumed, registry
        self.settings = FileSettings({"schema": {"registry": "main"}, **settings}, Path(), {"main": registry})

    def of(self, *values: bytes | None) -> list[Any]:
        while True:
            try:
                return self.consumed(self.settings, *values)
            except ResolveRequired as waiting:
                asyncio.run(waiting.interceptor.resolve(waiting.key))


def test_the_schemas_of_a_registry_are_waited_for(consumed: Consumed) -> None:
    older = {**ORDER, "fields": [*ORDER["fields"], {"name": "card", "type": "string"}]}
    registry = RegistryInMemory(
        {
            SchemaOf(SchemaId("id", 7)): AvroSchema.parse(json.dumps(ORDER)),
            SchemaOf(SchemaId("id", 8)): JsonSchema('{"type": "object"}'),
            SchemaOf(SchemaId("id", 9)): AvroSchema.parse(json.dumps(older)),
            SchemaOf(SchemaId("id", 10)): AvroSchema.parse(
                '{"type": "array", "items": ["int", {"type": "map", "values": "int"}]}'
            ),
        },
        cold=True,
    )
    in_time = InTime(consumed, registry, fields=[*AVRO_FIELDS, "$.card", "$[1]"], number=9)
    card = b"\0\0\0\0\x08" + b'{"card": 1}'
    old = written(older, {**VALUE, "card": "4000"})
    values = [
        PREFIX + GOOD,
        None,
        card,
        b"\0\0\0\0\x09" + old,
        PREFIX + old,  # not of the schema whose id it has
        b"\0\0\0\0\x0a" + b"\0",  # of a schema with a field that cannot be masked
        b"\0\0\0\0\x0b" + GOOD,  # of no schema
        GOOD,
    ]
    assert in_time.of(*values) == [
        PREFIX + EXPECTED,
        None,
        card.replace(b"1", b'"***"'),
        b"\0\0\0\0\x09" + written(older, {**MASKED, "card": "***"}),
        *[b'"***"'] * 4,
    ]
    assert len(registry.fetched) == 5
    kept = InTime(consumed, registry, fields=["$[1]"], unreadable="keep").of(values[-3], values[-2])
    assert kept == [b'"***"', values[-2]]  # what cannot be masked is hidden, what cannot be read is kept


def test_while_the_registry_does_not_answer_records_are_withheld_and_none_is_lost(consumed: Consumed) -> None:
    registry = RegistryInMemory({})
    registry.failure = "main does not answer"
    in_time = InTime(consumed, registry, fields=["$.id"], unreadable="drop")
    with pytest.raises(FailClosedError):
        in_time.of(PREFIX + GOOD)


PROTO = """syntax = "proto3";
message Refund { string note = 1; }
message Order { string card = 1; int64 cents = 2; Refund refund = 3; }
"""
MESSAGE, HIDDEN = b"\x0a\x044111\x10\x07", b"\x0a\x03***\x10\x09"


def test_fields_of_protobuf_messages_are_masked_by_their_own_type(tmp_path: Path, consumed: Consumed) -> None:
    file = tmp_path / "order.proto"
    file.write_text(PROTO)
    schema = {"language": "protobuf", "file": str(file), "message": "Order"}
    settings = {"fields": ["$.card", "$.cents"], "number": 9, "schema": schema, "prefix": "confluent"}
    before = PREFIX + b"\2\2"
    assert consumed(settings, before + MESSAGE, before + MESSAGE[:-1]) == [before + HIDDEN, b'"***"']
    assert consumed({**settings, "prefix": "none"}, MESSAGE) == [HIDDEN]
    with pytest.raises(ValueError, match=r"fields: \$.refund: a message Refund cannot be masked"):
        consumed({**settings, "fields": ["$.refund"]})


def test_messages_of_a_registry_are_masked(consumed: Consumed) -> None:
    registry = RegistryInMemory({SchemaOf(SchemaId("id", 7)): ProtobufSchema.parse(PROTO)}, cold=True)
    before = PREFIX + b"\2\2"
    in_time = InTime(consumed, registry, fields=["$.card", "$.cents"], number=9)
    assert in_time.of(before + MESSAGE, PREFIX + b"\2\x08" + MESSAGE) == [before + HIDDEN, b'"***"']
