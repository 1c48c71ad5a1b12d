"""Conditions in CEL."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime, time
from decimal import Decimal
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from typing import Any

import pytest
from support.avro_values import written
from support.schema_registry import RegistryInMemory

from kafka_sidecar.plugins.settings import FileSettings
from kafka_sidecar.policies.builtin import cel as cel_module
from kafka_sidecar.policies.builtin.cel import compile_program
from kafka_sidecar.policies.catalog import PolicyCatalog, PolicySettings
from kafka_sidecar.policies.contract import ALL, Hints, TopicMetadata
from kafka_sidecar.policies.plans import Plan, PolicyFailedError, ResolveRequired
from kafka_sidecar.schemas.avro.schema import AvroSchema
from kafka_sidecar.schemas.ids import SchemaId
from kafka_sidecar.schemas.protobuf.schema import ProtobufSchema
from kafka_sidecar.schemas.registry import Answer, Question, SchemaOf

Refusals = Callable[..., list[tuple[int, str, str]]]


@pytest.mark.parametrize(
    ("expression", "good", "bad"),
    [
        ("value.amount > 0", {"value": b'{"amount": 0.5}'}, {"value": b'{"amount": -1}'}),
        (
            "value.items.all(i, i.qty >= 1)",
            {"value": b'{"items": [{"qty": 1}]}'},
            {"value": b'{"items": [{"qty": 0}]}'},
        ),
        ("has(value.id)", {"value": b'{"id": null}'}, {"value": b'{"di": 1}'}),
        ("value == null", {"value": None}, {"value": b"1"}),
        ("value.n == 18446744073709551615u", {"value": b'{"n": 18446744073709551615}'}, {"value": b'{"n": 1}'}),
        ("key.startsWith('orders-')", {"key": b"orders-1"}, {"key": b"1"}),
        ("key == b'\\xff'", {"key": b"\xff"}, {"key": b"a"}),
        ("key != null", {"key": b""}, {}),
        ("key.matches('^(a+)+$')", {"key": b"a" * 50_000}, {"key": b"a" * 50_000 + b"b"}),
        ("'t' in headers", {"headers": [("t", None)]}, {"headers": [("s", b"")]}),
        ("headers['t'] == ['1', '2']", {"headers": [("t", b"1"), ("t", b"2")]}, {"headers": [("t", b"1")]}),
        ("timestamp > timestamp('2020-01-01T00:00:00Z')", {}, {"timestamp": 0}),
    ],
)
def test_a_record_is_accepted_if_the_condition_is_true(
    expression: str, good: dict[str, Any], bad: dict[str, Any], refusals: Refusals
) -> None:
    text = f"Topic orders requires records to satisfy: {expression}"
    expected = [(1, "condition", text)]
    assert refusals("cel", {"expression": expression}, good, bad, good) == expected
    assert refusals("cel", {}, good, bad, good, argument=expression) == expected


@pytest.mark.parametrize(
    ("expression", "record"),
    [
        ("value.amount > 0", {"value": b'{"other": 1}'}),
        ("value.amount > 0", {"value": b'{"amount": "many"}'}),
        ("value.amount > 0", {"value": None}),
        ("key.startsWith('a')", {"key": b"\xff"}),
        ("value.l.all(x, value.l.all(y, x + y >= 0))", {"value": b'{"l": [%s0]}' % (b"0," * 5000)}),
    ],
)
def test_a_record_for_which_the_condition_fails_to_evaluate_is_rejected(
    expression: str, record: dict[str, Any], refusals: Refusals
) -> None:
    ((index, reason, message),) = refusals("cel", {"expression": expression}, record)
    assert (index, reason) == (0, "not_evaluated")
    assert message == f"Topic orders requires records to satisfy: {expression}"


@pytest.mark.parametrize(
    ("expression", "record"),
    [
        ("key == 'a\\u0000b' && size(key) == 3", {"key": b"a\0b"}),
        ("key == b'\\xff\\x00b' && size(key) == 3", {"key": b"\xff\0b"}),
        ("headers['t'] == ['\\u0000'] && headers['t'][0] != ''", {"headers": [("t", b"\0")]}),
        ("value.l[0].a == 'a\\u0000b' && value.l[0].a != 'a'", {"value": b'{"l": [{"a": "a\\u0000b", "n": [1]}]}'}),
        ("value == '\\\\u0000'", {"value": b'"\\\\u0000"'}),
    ],
)
def test_nothing_of_a_text_with_a_nul_is_overlooked(
    expression: str, record: dict[str, Any], refusals: Refusals
) -> None:
    assert refusals("cel", {"expression": expression}, record) == []


@pytest.mark.parametrize(
    ("expression", "record"),
    [("has(value.a)", {"value": b'{"a\\u0000b": 1}'}), ("'t' in headers", {"headers": [("t\0", b"")]})],
)
def test_a_record_with_a_nul_in_a_key_of_a_map_is_rejected(
    expression: str, record: dict[str, Any], refusals: Refusals
) -> None:
    assert [one[1] for one in refusals("cel", {"expression": expression}, record)] == ["not_evaluated"]


def test_a_text_with_a_nul_is_rejected_where_it_cannot_be_given_to_the_library(
    refusals: Refusals, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "google.protobuf.wrappers_pb2", None)
    cel_module._in_cel.cache_clear()
    found = refusals("cel", {"expression": "key.startsWith('a')"}, {"key": b"a\0"}, {"key": b"a"})
    assert [(index, reason) for index, reason, _ in found] == [(0, "not_evaluated")]


def test_a_result_that_is_not_a_boolean_rejects_the_record(refusals: Refusals) -> None:
    found = refusals("cel", {"expression": "value.ok"}, {"value": b'{"ok": true}'}, {"value": b'{"ok": 1}'})
    assert [(index, reason) for index, reason, _ in found] == [(1, "condition")]


@pytest.mark.parametrize("value", [b"", b"{", b"NaN", b'"\xff"', b'"\\ud800"', b"[" * 100_000])
def test_a_value_that_is_not_json_is_rejected_if_the_condition_uses_it(value: bytes, refusals: Refusals) -> None:
    text = "Topic orders requires record values to be JSON"
    assert refusals("cel", {"expression": "value != 1"}, {"value": value}) == [(0, "not_json", text)]
    assert refusals("cel", {"expression": "topic == 'orders' && partition == 3"}, {"value": value}) == []


@pytest.mark.parametrize("timestamp", [-1, 253_402_300_800_000, -(1 << 62)])
def test_a_timestamp_outside_the_calendar_is_rejected(timestamp: int, refusals: Refusals) -> None:
    ((_, reason, _),) = refusals("cel", {"expression": "timestamp != timestamp"}, {"timestamp": timestamp})
    assert reason == "no_timestamp"


def test_the_last_day_of_the_calendar_is_a_valid_timestamp(refusals: Refusals) -> None:
    expression = "timestamp == timestamp('9999-12-31T23:59:59.999Z')"
    assert refusals("cel", {"expression": expression}, {"timestamp": 253_402_300_799_999}) == []


def test_the_message_to_the_client_can_be_configured(refusals: Refusals) -> None:
    settings = {"expression": "value.a == 1", "message": "Orders need an a of 1"}
    assert refusals("cel", settings, {"value": b'{"a": 2}'}) == [(0, "condition", "Orders need an a of 1")]


@pytest.mark.parametrize(
    ("expression", "hints"),
    [
        ("topic == 'a'", Hints()),
        ("size(headers) > 0", Hints(access_headers=True)),
        ("key == '' || value.value == 1", Hints(access_key_bytes=ALL, access_value_bytes=ALL)),
        ("topic == 'value' && timestamp < timestamp('2020-01-01T00:00:00Z')", Hints(access_metadata=True)),
    ],
)
def test_the_hints_name_the_fields_that_the_condition_uses(expression: str, hints: Hints) -> None:
    assert compile_program(expression).hints == hints


def test_many_expressions_share_what_is_the_same_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    made = list[Any]()
    library: Any = vars(cel_module)["cel"]
    new_env = library.NewEnv

    def counted(**settings: Any) -> Any:
        made.append(settings)
        return new_env(**settings)

    monkeypatch.setattr(library, "NewEnv", counted)
    cel_module._environment.cache_clear()
    for number in range(50):
        compile_program(f"topic != 'never-{number}' && value.a > 1")
    assert len(made) == 3  # with all variables, without topic, without value


def test_a_condition_on_the_topic_alone_decodes_no_batch(batch: Callable[..., Any], orders: Any) -> None:
    contents = batch({}, {})
    plan = PolicyCatalog({"never": PolicySettings("cel", settings={"expression": "topic != 'orders'"})}).plan("never")
    assert [one.index for one in plan.validate(orders, contents, 1 << 20)] == [-1]
    assert contents.inflated == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('cel:"value.a >"', "is not valid CEL: 1:10: Syntax error"),
        ("cel:valu.a", "undeclared reference to 'valu.a'"),
        ('cel:"topic + 1 == 2"', "found no matching overload"),
        ("cel:topic", "'topic' returns STRING: write a condition"),
        ("cel", "write one condition"),
    ],
)
def test_an_invalid_condition_is_rejected_in_one_line(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as refused:
        PolicyCatalog({}).plan(text)
    assert "\n" not in str(refused.value)


def test_a_configured_condition_takes_no_argument() -> None:
    catalog = PolicyCatalog({"it": PolicySettings("cel", settings={"expression": "key == 'a'"})})
    with pytest.raises(ValueError, match="write one condition"):
        catalog.plan("it:value")


def test_an_invalid_configured_condition_is_rejected_at_start() -> None:
    with pytest.raises(ValueError, match="policy it: '1 \\+' is not valid CEL"):
        PolicyCatalog({"it": PolicySettings("cel", settings={"expression": "1 +"})})


def test_a_condition_without_its_library_is_rejected_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cel_expr_python", None)
    spec = find_spec("kafka_sidecar.policies.builtin.cel")
    assert spec is not None
    assert spec.loader is not None
    spec.loader.exec_module(module := module_from_spec(spec))
    with pytest.raises(ValueError, match=r"^CEL is not installed; in a clone, pip install '\.\[cel\]'$"):
        module.Cel().configure({"expression": "true"})
    assert module.Cel.settings.expression is None


AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "from", "type": ["null", {"type": "int", "logicalType": "time-millis"}]},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "SENT"]}},
        {"name": "raw", "type": "bytes"},
        {"name": "tags", "type": {"type": "map", "values": "long"}},
    ],
}
ORDER = {
    "amount": Decimal("19.99"), "at": datetime(2026, 1, 2, tzinfo=UTC), "from": time(9, 30), "state": "SENT",
    "raw": b"\xff\0\1", "tags": {"a": 1 << 40},
}  # fmt: skip
UNLIKE = "Topic orders requires record values to be of the schema Order: "
LOW = {**ORDER, "amount": Decimal(0), "at": 0, "from": None, "raw": b""}
NATIVE = [
    "value.amount > 19 && value.amount < 20",
    "value.at > timestamp('2026-01-01T00:00:00Z') && value.at.getFullYear() == 2026",
    "value.from == duration('9h30m')",
    "value.state in ['NEW', 'SENT'] && value.raw == b'\\xff\\x00\\x01' && value.tags.a == 1099511627776",
    "[value].all(one, one.at == timestamp('2026-01-02T00:00:00Z'))",
]


@pytest.fixture
def avro(tmp_path: Path) -> dict[str, str]:
    file = tmp_path / "order.avsc"
    file.write_text(json.dumps(AVRO))
    return {"language": "avro", "file": str(file)}


@pytest.mark.parametrize("expression", NATIVE)
def test_values_of_an_avro_schema_have_its_types(expression: str, avro: dict[str, str], refusals: Refusals) -> None:
    good, bad = written(AVRO, ORDER), written(AVRO, LOW)
    found = refusals("cel", {"schema": avro, "expression": expression}, {"value": good}, {"value": bad})
    assert [(index, reason) for index, reason, _ in found] == [(1, "condition")]
    assert refusals("cel", {"schema": avro}, {"value": good}, argument=expression) == []


def test_a_value_that_is_not_of_the_schema_is_rejected_with_path_and_rule(
    avro: dict[str, str], refusals: Refusals
) -> None:
    settings = {"schema": avro, "prefix": "confluent", "expression": "value == null || value.amount > 0"}
    good = b"\0\0\0\0\7" + written(AVRO, ORDER)
    values = [good, good[:-1], good[5:], b"\0\0", None]
    assert refusals("cel", settings, *({"value": value} for value in values)) == [
        (1, "not_of_schema", f"{UNLIKE}$.tags{{}}: ends too early at byte {len(good) - 6}"),
        (2, "no_schema_id", "Topic orders requires record values of a known schema, but one does not begin with an id"),
        (3, "no_schema_id", "Topic orders requires record values of a known schema, but one does not begin with an id"),
    ]


def test_keys_can_have_a_schema_and_json_values_their_prefix(avro: dict[str, str], refusals: Refusals) -> None:
    settings = {"key_schema": {**avro}, "prefix": "confluent", "expression": "key.state == 'SENT' && value.n == 1"}
    key = b"\0\0\0\0\7" + written(AVRO, ORDER)
    found = refusals(
        "cel",
        settings,
        {"key": key, "value": b'\0\0\0\0\1{"n": 1}'},
        {"key": key, "value": b'{"n": 1}'},
        {"key": key, "value": b"\0\0\0\0\1{"},
        {"key": b"", "value": b'\0\0\0\0\1{"n": 1}'},
    )
    assert [(index, reason) for index, reason, _ in found] == [
        (1, "no_schema_id"),
        (2, "not_json"),
        (3, "no_schema_id"),
    ]


def test_values_of_a_json_schema_are_checked_before_the_condition(tmp_path: Path, refusals: Refusals) -> None:
    file = tmp_path / "order.json"
    file.write_text('{"type": "object", "required": ["n"], "properties": {"n": {"minimum": 0}}}')
    settings = {"schema": {"language": "json_schema", "file": str(file)}, "expression": "value.n < 10"}
    found = refusals("cel", settings, *({"value": value} for value in (b'{"n": 1}', b'{"n": 11}', b'{"n": -1}', b"{}")))
    assert [(index, reason) for index, reason, _ in found] == [
        (1, "condition"),
        (2, "not_of_schema"),
        (3, "not_of_schema"),
    ]
    assert found[1][2].endswith("$.n: minimum 0")


def asked(plan: Plan, orders: TopicMetadata, batch: Any) -> list[tuple[int, str]]:
    """What a plan rejects once its policy has fetched what it needs."""
    while True:
        try:
            return [(one.index, one.reason) for one in plan.validate(orders, batch, 1 << 20)]
        except ResolveRequired as waiting:
            asyncio.run(waiting.rule.policy.resolve(waiting.key))


def test_the_id_of_a_value_decides_of_which_schema_it_is(batch: Callable[..., Any], orders: TopicMetadata) -> None:
    guid = "01020304-0506-0708-090a-0b0c0d0e0f10"
    old = {"type": "record", "name": "Order", "fields": [{"name": "amount", "type": "int"}]}
    new = {**old, "fields": [*old["fields"], {"name": "note", "type": "string", "default": ""}]}
    registry = RegistryInMemory(
        {
            SchemaOf(SchemaId("id", 1)): AvroSchema.parse(json.dumps(old)),
            SchemaOf(SchemaId("id", 2)): AvroSchema.parse(json.dumps(new)),
            SchemaOf(SchemaId("guid", guid)): AvroSchema.parse(json.dumps(new)),
        },
        cold=True,
    )
    settings = FileSettings(
        {"schema": {"registry": "main"}, "expression": "value.amount == 5 && (!has(value.note) || value.note == 'n')"},
        Path(),
        {"main": registry},
    )
    plan = PolicyCatalog({"it": PolicySettings("cel", settings=settings)}).plan("it")
    assert plan.hints == Hints(access_headers=True, access_value_bytes=ALL)
    of_old, of_new = b"\x0a", b"\x0a\x02n"
    header = ("__value_schema_id", b"\x01" + bytes(range(1, 17)))
    found = asked(
        plan,
        orders,
        batch(
            {"value": b"\0\0\0\0\1" + of_old},
            {"value": b"\0\0\0\0\2" + of_new},
            {"value": b"\0\0\0\0\1" + of_new},  # written with the newer schema, but it has the older one's id
            {"value": b"\0\0\0\0\2" + of_old},
            {"value": b"\0\0\0\0\3" + of_old},
            {"value": of_old},
            {"value": b"\1" + bytes(range(1, 17)) + of_new},
            {"value": of_new, "headers": [header]},
            {"value": b"\0\0\0\0\1" + of_old, "headers": [header]},
        ),
    )
    assert found == [
        (2, "not_of_schema"),
        (3, "not_of_schema"),
        (4, "unknown_schema"),
        (5, "no_schema_id"),
        (8, "not_of_schema"),
    ]
    assert len(registry.fetched) == 4
    registry.failure = "main does not answer"
    with pytest.raises(PolicyFailedError) as error:
        asked(plan, orders, batch({"value": b"\0\0\0\0\1" + of_old}))
    assert repr(error.value.error) == "UnavailableError('main does not answer')"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"schema": {}}, "schema: write a file, or a registry"),
        ({"schema": {"file": "a.avsc"}}, "schema: write the language of the file"),
        ({"schema": {"registry": "main"}}, "schema.registry: there is no schema registry 'main'"),
        ({"schema": {"language": "avro", "file": "/nowhere.avsc"}}, "file: /nowhere.avsc cannot be read"),
        ({"key_schema": {"language": "xsd", "file": "a"}}, "key_schema.language: write 'avro'"),
    ],
)
def test_a_wrong_schema_is_one_line(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        PolicyCatalog({"it": PolicySettings("cel", settings={"expression": "value == 1", **settings})})
    assert "\n" not in str(error.value)


def test_the_files_of_schemas_are_watched(avro: dict[str, str]) -> None:
    settings = {"schema": avro, "expression": "value.amount > 0"}
    assert PolicyCatalog({"it": PolicySettings("cel", settings=settings)}).files() == {Path(avro["file"])}


PROTO = """syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
message Refund { string note = 1; }
message Order { string card = 1; int64 cents = 2; google.protobuf.Timestamp at = 3; repeated string tags = 4; }
"""
# card "4111", cents 7, at 5 s, tags "a"
MESSAGE = b"\x0a\x044111\x10\x07\x1a\x02\x08\x05\x22\x01a"
OF_MESSAGE = "value.cents == 7 && value.at == timestamp('1970-01-01T00:00:05Z') && value.tags == ['a']"


def test_messages_of_protobuf_have_their_types(tmp_path: Path, refusals: Refusals) -> None:
    file = tmp_path / "order.proto"
    file.write_text(PROTO)
    schema = {"language": "protobuf", "file": str(file), "message": "Order"}
    settings = {"schema": schema, "expression": OF_MESSAGE}
    found = refusals("cel", settings, {"value": MESSAGE}, {"value": b""}, {"value": MESSAGE[:-1]})
    assert [(index, reason) for index, reason, _ in found] == [(1, "condition"), (2, "not_of_schema")]
    framed = {**settings, "prefix": "confluent"}
    assert refusals("cel", framed, {"value": b"\0\0\0\0\7\2\2" + MESSAGE}) == []


def test_the_indexes_of_a_message_are_before_it_or_in_the_header(
    batch: Callable[..., Any], orders: TopicMetadata
) -> None:
    guid = "01020304-0506-0708-090a-0b0c0d0e0f10"
    schema = ProtobufSchema.parse(PROTO)
    answers: dict[Question, Answer] = {SchemaOf(SchemaId("id", 1)): schema, SchemaOf(SchemaId("guid", guid)): schema}
    registry = RegistryInMemory(answers, cold=True)
    settings = FileSettings({"schema": {"registry": "main"}, "expression": OF_MESSAGE}, Path(), {"main": registry})
    plan = PolicyCatalog({"it": PolicySettings("cel", settings=settings)}).plan("it")
    header = b"\x01" + bytes(range(1, 17))
    records = [
        {"value": b"\0\0\0\0\1\2\2" + MESSAGE},
        {"value": MESSAGE, "headers": [("__value_schema_id", header + b"\2\2")]},
        {"value": MESSAGE, "headers": [("__value_schema_id", header + b"\2\x08")]},
    ]
    assert asked(plan, orders, batch(*records)) == [(2, "unknown_schema")]
