"""JSON Schemas that would hold up all others: what goes to another process, and what comes back."""

from __future__ import annotations

import io
import json
import pickle
from collections.abc import Iterator
from typing import Any

import pytest

from kafka_sidecar.codec.checkpoint import ThreadRequiredError
from kafka_sidecar.schemas import json_schema
from kafka_sidecar.schemas.json_graph import can_multiply
from kafka_sidecar.schemas.json_schema import MAX_HERE, JsonSchema, JsonSchemaError
from kafka_sidecar.schemas.own_process import OwnProcess
from kafka_sidecar.schemas.own_process_worker import serve

SHORT_S = 0.5  # to be ended after, once the process has started
LARGE = json.dumps({"text": "x" * MAX_HERE}).encode()
# Each rule applies two that apply two: no value is as large as the work.
DOUBLING = {f"d{at}": {"allOf": [{"$ref": f"#/$defs/d{at + 1}"}] * 2} for at in range(40)} | {
    "d40": {"type": "integer"}
}
LAUGHS = {"$defs": DOUBLING, "$ref": "#/$defs/d0"}
# Each level of a value is looked at twice as often as the one above it.
TWICE: dict[str, Any] = {"allOf": [{"properties": {"n": {"$ref": "#"}}}] * 2}


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Iterator[OwnProcess]:
    made = OwnProcess(limit_s=2.0)
    monkeypatch.setattr(json_schema, "SHARED", made)
    yield made
    made.close()


def test_a_large_value_gets_the_same_verdict_as_a_small_one(process: OwnProcess) -> None:
    schema = JsonSchema(json.dumps({"properties": {"text": {"type": "string", "maxLength": 1 << 20}, "n": False}}))
    assert schema.fault_of(LARGE) is None
    assert process._child is not None
    for more, path in ((b', "n": 1}', "$.n"), (b', "text": 1}', "$.text")):
        small, large = b'{"text": "x"' + more, LARGE[:-1] + more
        assert str(schema.fault_of(large)) == str(schema.fault_of(small))
        assert str(schema.fault_of(large)).startswith(path)
    assert schema.decode(LARGE, 0, len(LARGE), 10) == json.loads(LARGE)


async def test_the_event_loop_never_waits_for_it(process: OwnProcess) -> None:
    with pytest.raises(ThreadRequiredError):
        JsonSchema("{}").fault_of(LARGE)
    assert process._child is None


def test_a_schema_that_is_not_trusted_and_cannot_take_long_is_used_here(process: OwnProcess) -> None:
    schema = JsonSchema('{"items": {"$ref": "#"}}', is_trusted=False)
    process.close()
    assert schema.fault_of(b"[[]]") is None
    assert process._child is None


def test_a_schema_that_multiplies_stays_there_and_is_ended(
    process: OwnProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = JsonSchema(json.dumps(LAUGHS), is_trusted=False)
    with monkeypatch.context() as short:
        short.setattr(process, "_limit_s", SHORT_S)
        assert str(schema.fault_of(b"1")) == "$: not validated, it takes more than 0.5 s"
    twice = JsonSchema(json.dumps(TWICE), is_trusted=False)  # this library remembers what it has validated of it
    assert twice.fault_of(b'{"n":' * 40 + b"1" + b"}" * 40) is None
    assert process._child is not None
    assert JsonSchema("{}").fault_of(LARGE) is None, "another process serves the next one"


def test_a_schema_that_takes_too_long_to_compile_is_an_error(
    process: OwnProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    patterns = {f"p{at}": {"pattern": f"^[\\p{{L}}]{{1,100}}x{at}$"} for at in range(1000)}
    JsonSchema("{}", is_trusted=False)
    with monkeypatch.context() as short:
        short.setattr(process, "_limit_s", SHORT_S)
        with pytest.raises(JsonSchemaError, match="to compile it takes more"):
            JsonSchema(json.dumps({"properties": patterns}), is_trusted=False)
    with pytest.raises(JsonSchemaError, match="is not valid"):
        JsonSchema('{"type": 1}', is_trusted=False)


def test_the_process_answers_with_seconds_faults_and_errors() -> None:
    source = ('{"type": "integer"}', (), False)
    compiled, found = json_schema._compile_there, json_schema._fault_there
    asked = [
        (compiled, (source,), {}),
        (found, (source, b"1"), {}),
        (found, (source,), {"text": b'"a"'}),
        (compiled, (('{"type": 1}', (), False),), {}),
    ]
    requests, answers = io.BytesIO(b"".join(map(pickle.dumps, asked))), io.BytesIO()
    serve(requests, answers, 5)
    answers.seek(0)
    seconds, good, bad, invalid = (pickle.load(answers) for _ in asked)
    assert 0 <= seconds < 5
    assert good is None
    assert str(bad) == "$: type integer"
    assert isinstance(invalid, ValueError)


REFERRED = {"type": "object", "properties": {"of": {"$ref": "#/$defs/part"}, "to": {"$ref": "#/$defs/part"}}}


@pytest.mark.parametrize(
    ("schema", "multiplies"),
    [
        (True, False),
        ({**REFERRED, "$defs": {"part": {"type": "string"}}}, False),
        ({"properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}, "items": {"$ref": "#"}}, False),
        ({"oneOf": [{"type": "string"}, {"properties": {"n": {"$ref": "#"}}}]}, False),
        ({"$id": "http://a/b", "properties": {"n": {"$ref": "b"}}}, False),
        ({"$defs": {"n": {"$anchor": "x", "items": {"$ref": "#x"}}}, "$ref": "#x"}, False),
        ({"properties": {"o": {"$ref": "other.json"}}}, False),
        (LAUGHS, True),
        (TWICE, True),
        ({"anyOf": [{"properties": {"n": {"$ref": "#"}}}, {"items": {"$ref": "#"}}]}, True),
        ({"properties": {"n": {"$ref": "#"}}, "additionalProperties": {"$ref": "#"}}, True),
        ({"properties": {"n": {"$ref": "#"}}, "patternProperties": {"^n": {"$ref": "#"}}}, True),
        ({"allOf": [{"$ref": "nowhere.json"}]}, True),
        ({"items": {"$dynamicRef": "#x"}, "$dynamicAnchor": "x"}, False),
    ],
)  # fmt: skip
def test_schemas_that_can_multiply_the_work_are_found_by_their_form(schema: Any, multiplies: bool) -> None:
    assert can_multiply(schema, {"other.json": {"type": "integer"}}) == multiplies
