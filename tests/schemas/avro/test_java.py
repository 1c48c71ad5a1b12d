"""Apache Avro's own reader and ours: the same verdicts on each other's values and on damaged ones."""

from __future__ import annotations

import json
from collections import Counter
from random import Random
from typing import Any

import pytest
from harness.java_avro import Question, asked
from hypothesis import HealthCheck, Phase, given, settings
from support.avro_values import schemas, written

from kafka_sidecar.schemas.avro.schema import AvroSchema

pytestmark = [pytest.mark.integration, pytest.mark.slow]

SCHEMAS = 400
# Java reads what the specification does not allow; our rule, and why Java does.
LENIENT = {
    "a boolean that is neither 0 nor 1": "takes it for false",
    "text that is not UTF-8": "puts a replacement in its place",
    "a number of too many bits": "drops the highest bits of the last byte",
    "too many elements that take no bytes": "has no limit but its memory, if not configured",
}


def drawn() -> list[tuple[Any, bytes]]:
    """Random schemas, each with a value that fastavro has written."""
    found: list[tuple[Any, bytes]] = []

    @settings(max_examples=SCHEMAS, derandomize=True, database=None, phases=[Phase.generate], deadline=None,
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(schemas().flatmap(lambda one: one[1].map(lambda value: (one[0], value))))
    def draw(example: tuple[Any, Any]) -> None:
        declared, value = example
        found.append((declared, written(declared, value)))

    draw()
    return found


def damaged(data: bytes, random: Random) -> bytes:
    """A value with one byte changed, added or removed, or cut off."""
    at = random.randrange(len(data) + 1)
    match random.randrange(4):
        case 0:
            byte = random.choice((0, 1, 2, 3, 0x7F, 0x80, 0xFF, random.randrange(256)))
            return data[:at] + bytes([byte]) + data[at + 1 :]
        case 1:
            return data[:at] + random.randbytes(random.randint(1, 3)) + data[at:]
        case 2:
            return data[:at] + data[at + 1 :]
    return data[:at]


def shown(schema: AvroSchema, data: bytes | None) -> str:
    """A value as text: Java's maps have no order, and NaN is not itself."""
    assert data is not None
    return repr(in_order(schema.decode(data, 0, len(data), 128)))


def in_order(value: Any) -> Any:
    if isinstance(value, dict):
        return [(name, in_order(one)) for name, one in sorted(value.items())]
    return [in_order(one) for one in value] if isinstance(value, list) else value


def test_java_reads_what_others_have_written_and_we_read_what_java_writes() -> None:
    examples = drawn()
    questions = [Question(declared, (data,), 3, seed) for seed, (declared, data) in enumerate(examples)]
    for (declared, data), answer in zip(examples, asked(questions), strict=True):
        assert answer.error is None, declared
        schema = AvroSchema.parse(json.dumps(declared))
        assert shown(schema, answer.read[0]) == shown(schema, data)
        for plain, in_blocks in zip(answer.written, answer.in_blocks, strict=True):
            assert written(declared, schema.decode(plain, 0, len(plain), 128)) == plain
            assert shown(schema, in_blocks) == shown(schema, plain)


def test_verdicts_on_damaged_values_are_the_same_but_where_java_is_lenient() -> None:
    random = Random(1)
    examples = [(declared, [damaged(data, random) for _ in range(30)]) for declared, data in drawn()]
    answers = asked([Question(declared, tuple(values)) for declared, values in examples])
    seen: Counter[str] = Counter()
    for (declared, values), answer in zip(examples, answers, strict=True):
        schema = AvroSchema.parse(json.dumps(declared))
        for data, again in zip(values, answer.read, strict=True):
            fault = schema.fault_of(data, 0, len(data))
            seen["valid" if fault is None else "invalid"] += 1
            if fault is None:
                assert shown(schema, again) == shown(schema, data), (declared, data)
            elif again is not None:
                assert fault.rule in LENIENT, (declared, data, fault)
                seen[fault.rule] += 1
    assert min(seen["valid"], seen["invalid"]) > 1000, seen


BASE = [{"name": "id", "type": "long"}, {"name": "n", "type": "int"}]
EVOLVED = [
    ("a field was added", [*BASE, {"name": "note", "type": "string", "default": ""}], False),
    ("a field was removed", BASE[:1], False),
    ("an optional field was added", [*BASE, {"name": "note", "type": ["null", "string"], "default": None}], False),
    ("a field became a double", [BASE[0], {"name": "n", "type": "double"}], False),
    # the same bytes
    ("an int became a long", [BASE[0], {"name": "n", "type": "long"}], True),
    ("a field was renamed", [BASE[0], {"name": "m", "aliases": ["n"], "type": "int"}], True),
    ("a field without bytes was added", [*BASE, {"name": "gone", "type": "null", "default": None}], True),
]


def test_a_value_is_of_the_schema_that_has_written_it_and_of_a_newer_one_only_if_the_bytes_are() -> None:
    old = {"type": "record", "name": "R", "fields": BASE}
    data = written(old, {"id": 1, "n": 2})
    questions = [Question({**old, "fields": fields}, (data,)) for _, fields, _ in EVOLVED]
    for (what, fields, expected), answer in zip(EVOLVED, asked(questions), strict=True):
        schema = AvroSchema.parse(json.dumps({**old, "fields": fields}))
        assert (schema.fault_of(data, 0, len(data)) is None) is expected, what
        assert (answer.read[0] is not None) is expected, what


INVALID = [
    '{"type": "record", "name": "R"}',
    '{"type": "enum", "name": "E", "symbols": ["A", "A"]}',
    '{"type": "fixed", "name": "F", "size": -1}',
    '["int", "int"]',
    '["int", ["string"]]',
    '["long", {"type": "long", "logicalType": "timestamp-millis"}]',
    '{"type": "record", "name": "1R", "fields": []}',
    '{"type": "array"}',
    '"unheard"',
    '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}, {"name": "a", "type": "int"}]}',
]


def test_java_refuses_the_schemas_that_are_refused_here() -> None:
    for text, answer in zip(INVALID, asked(Question(json.loads(text)) for text in INVALID), strict=True):
        with pytest.raises(ValueError, match=r"\S"):
            AvroSchema.parse(text)
        assert answer.error is not None, text
