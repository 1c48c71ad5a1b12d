"""Conditions in CEL."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.util import find_spec, module_from_spec
from typing import Any

import pytest

from kafka_sidecar.policies.builtin.cel import compile_program
from kafka_sidecar.policies.catalog import PolicyCatalog, PolicySettings
from kafka_sidecar.policies.contract import ALL, Hints

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
