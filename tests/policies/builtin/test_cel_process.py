"""Conditions on large records are evaluated in a process of their own, with the result that they have here."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.avro_values import written

from kafka_sidecar.codec.checkpoint import ThreadRequiredError
from kafka_sidecar.policies.builtin import cel
from kafka_sidecar.policies.builtin.cel import MAX_HERE, MAX_HERE_LOOPS, compile_program
from kafka_sidecar.policies.catalog import PolicyCatalog
from kafka_sidecar.schemas.own_process import OwnProcess

Refusals = Callable[..., list[tuple[int, str, str]]]
LARGE = json.dumps({"a": 1, "text": "x" * MAX_HERE, "at": 5}).encode()
UNSATISFIED = "Topic orders requires records to satisfy: "


class Counted(OwnProcess):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def call(self, *question: Any, **named: Any) -> Any:
        self.calls += 1
        return super().call(*question, **named)


@pytest.fixture(scope="module")
def started() -> Iterator[Counted]:
    process = Counted()
    yield process
    process.close()


@pytest.fixture
def process(started: Counted, monkeypatch: pytest.MonkeyPatch) -> Counted:
    monkeypatch.setattr(cel, "SHARED", started)
    started.calls = 0
    return started


@pytest.fixture
def all_there(process: Counted, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """Makes this process evaluate nothing."""

    def begin() -> None:
        monkeypatch.setattr(cel, "MAX_HERE", -1)
        monkeypatch.setattr(cel, "MAX_HERE_LOOPS", -1)
        compile_program.cache_clear()

    yield begin
    compile_program.cache_clear()


@pytest.mark.parametrize(
    ("expression", "record", "reason"),
    [
        ("value.a == 1", {"value": b'{"a": 1}'}, None),
        ("value.a == 1", {"value": b'{"a": 2}'}, "condition"),
        ("value.a", {"value": b'{"a": 1}'}, "condition"),
        ("value.a > 0", {"value": b'{"b": 1}'}, "not_evaluated"),
        ("value.a > 0", {"value": b'{"a": "b"}'}, "not_evaluated"),
        ("value.l.all(x, value.l.all(y, x + y >= 0))", {"value": b'{"l": [%s0]}' % (b"0," * 5000)}, "not_evaluated"),
        ("value != 1", {"value": b"{"}, "not_json"),
        ("value == null", {"value": None}, None),
        ("value.n == 18446744073709551615u && value.d == 0.5", {"value": b'{"n":18446744073709551615,"d":0.5}'}, None),
        ("key == b'\\xff'", {"key": b"\xff"}, None),
        ("key == 'é' && size(key) == 1", {"key": "é".encode()}, None),
        ("key == null && !('a' in headers)", {}, None),
        ("headers['t'] == ['1', b'\\xff', null]", {"headers": [("t", b"1"), ("t", b"\xff"), ("t", None)]}, None),
        ("timestamp > timestamp('2020-01-01T00:00:00Z')", {}, None),
        ("timestamp == timestamp('9999-12-31T23:59:59.999Z')", {"timestamp": 253_402_300_799_999}, None),
        ("timestamp == timestamp", {"timestamp": -1}, "no_timestamp"),
        ("topic == 'orders' && partition == 3 && key == 'k'", {"key": b"k"}, None),
    ],
)
def test_a_condition_has_the_same_result_in_both_processes(
    expression: str,
    record: dict[str, Any],
    reason: str | None,
    refusals: Refusals,
    process: Counted,
    all_there: Callable[[], None],
) -> None:
    here = refusals("cel", {"expression": expression}, record)
    assert [one[1] for one in here] == ([] if reason is None else [reason])
    in_loops = process.calls
    all_there()
    assert refusals("cel", {"expression": expression}, record) == here
    assert process.calls == in_loops + (reason != "no_timestamp")


@pytest.mark.parametrize(
    ("expression", "record"),
    [
        ("value.a == 1", {"value": LARGE}),
        ("key != ''", {"key": b"k" * (MAX_HERE + 1)}),
        ("'t' in headers", {"headers": [("t", b"v" * MAX_HERE)]}),
        ("size(headers) == 1", {"headers": [("t", None)] * (MAX_HERE // cel.HEADER_BYTES)}),
        ("value != key", {"value": b'"%s"' % (b"a" * (MAX_HERE // 2)), "key": b"b" * (MAX_HERE // 2)}),
        ("value.all(x, x == 1)", {"value": b"[%s1]" % (b"1," * (MAX_HERE_LOOPS // 2))}),
        ("value.map (x, x) == value", {"value": b"[%s1]" % (b"1," * (MAX_HERE_LOOPS // 2))}),
    ],
)
def test_what_would_take_long_here_is_sent_there(
    expression: str, record: dict[str, Any], refusals: Refusals, process: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cel, "evaluate", None)
    assert refusals("cel", {"expression": expression}, record) == []
    assert process.calls == 1


@pytest.mark.parametrize(
    ("expression", "record"),
    [
        ("value.a == 1", {"value": b'{"a": 1, "b": "%s"}' % (b"x" * (MAX_HERE - 100))}),
        ("value.all(x, x == 1)", {"value": b"[1,1,1]"}),
        ("key == 'a'", {"key": b"a", "value": LARGE}),
    ],
)
def test_what_is_small_or_not_named_does_not_leave_this_process(
    expression: str, record: dict[str, Any], refusals: Refusals, process: Counted
) -> None:
    assert refusals("cel", {"expression": expression}, record) == []
    assert process.calls == 0


async def test_the_event_loop_does_not_wait_for_it(batch: Callable[..., Any], orders: Any, process: Counted) -> None:
    plan = PolicyCatalog({}).plan('cel:"value.a == 1"')
    with pytest.raises(ThreadRequiredError):
        plan.validate(orders, batch({"value": LARGE}), 1 << 20)


@pytest.mark.parametrize("message", [None, "Orders need an a"])
def test_a_record_that_takes_too_long_is_rejected_with_that_reason(
    message: str | None, refusals: Refusals, process: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Each list is made again for each element, and 10,000 elements are within the budget of steps.
    value = b'{"l":[%s1]}' % (b"1," * 9000)
    expression = "value.l.all(x, value.l == value.l && value.l == value.l)"
    assert refusals("cel", {"expression": "value.l.all(x, x == 1)"}, {"value": value}) == []
    monkeypatch.setattr(process, "_limit_s", 0.1)
    settings = {"expression": expression} | ({} if message is None else {"message": message})
    ((_, reason, shown),) = refusals("cel", settings, {"value": value})
    assert reason == "not_evaluated"
    assert shown == f"{message or UNSATISFIED + expression}: not evaluated, it takes more than 0.1 s"


def test_a_process_that_ended_is_started_again(refusals: Refusals, process: Counted) -> None:
    for _ in range(2):
        assert refusals("cel", {"expression": "value.a == 1"}, {"value": LARGE}) == []
        assert process._child is not None
        process._child.kill()
        process._child.wait()


NUMBERS = {
    "type": "record",
    "name": "Numbers",
    "fields": [
        {"name": "n", "type": {"type": "array", "items": "int"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "of", "type": {"type": "int", "logicalType": "time-millis"}},
    ],
}


def test_values_of_a_schema_keep_their_types_on_the_way(tmp_path: Path, refusals: Refusals, process: Counted) -> None:
    file = tmp_path / "numbers.avsc"
    file.write_text(json.dumps(NUMBERS))
    settings = {
        "schema": {"language": "avro", "file": str(file)},
        "expression": "value.n[2] == 3 && value.at == timestamp('1970-01-01T00:00:05Z') && value.of == duration('2s')",
    }
    good, bad = ({"n": [1, 2, 3] * MAX_HERE, "at": at, "of": 2000} for at in (5000, 6000))
    found = refusals("cel", settings, {"value": written(NUMBERS, good)}, {"value": written(NUMBERS, bad)})
    assert [(index, reason) for index, reason, _ in found] == [(1, "condition")]
    assert process.calls == 2


def test_large_values_of_a_json_schema_are_checked_and_not_parsed_here(
    tmp_path: Path, refusals: Refusals, process: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "order.json"
    file.write_text('{"required": ["a"], "properties": {"a": {"minimum": 0}}}')
    settings = {"schema": {"language": "json_schema", "file": str(file)}, "expression": "value.a == 1"}
    values = [LARGE, LARGE.replace(b'"a": 1', b'"a": 2'), LARGE.replace(b'"a": 1', b'"a": -1')]
    monkeypatch.setattr(cel, "evaluate", None)
    found = refusals("cel", settings, *({"value": value} for value in values))
    assert [(index, reason) for index, reason, _ in found] == [(1, "condition"), (2, "not_of_schema")]
    assert process.calls == 2
