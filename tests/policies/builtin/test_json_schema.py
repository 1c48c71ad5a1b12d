"""Records that a JSON Schema accepts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.examples import for_each

from kafka_sidecar.policies.catalog import PolicyCatalog, PolicySettings
from kafka_sidecar.schemas.json_schema import JsonSchema, JsonSchemaError

Refusals = Callable[..., list[tuple[int, str, str]]]
UNLIKE = "Topic orders requires record values to be of the schema orders: "
ORDER = {
    "$id": "orders",
    "type": "object",
    "properties": {
        "id": {"type": "integer", "minimum": 1},
        "items": {"type": "array", "items": {"$ref": "#/$defs/item"}, "maxItems": 2},
        "state": {"enum": ["new", "sent"]},
    },
    "required": ["id"],
    "additionalProperties": {"type": "string", "pattern": "^[a-z]+$"},
    "$defs": {"item": {"type": "object", "properties": {"sku": {"type": "string", "maxLength": 3}}}},
}


@pytest.fixture
def schema(tmp_path: Path) -> str:
    file = tmp_path / "order.json"
    file.write_text(json.dumps(ORDER))
    return str(file)


def test_a_rejection_names_path_and_rule_and_nothing_of_the_value(schema: str, refusals: Refusals) -> None:
    values: list[tuple[Any, str]] = [
        ({"id": 0}, "$.id: minimum 1"),
        ({}, "$: required id"),
        ([], "$: type object"),
        ({"id": 1, "items": [{}, {"sku": "secret"}]}, "$.items[1].sku: maxLength 3"),
        ({"id": 1, "items": [{}] * 3}, "$.items: maxItems 2"),
        ({"id": 1, "state": "secret"}, "$.state: enum"),
        ({"id": 1, "secret": "SECRET"}, "$.{}: pattern ^[a-z]+$"),
    ]
    records = [{"value": json.dumps(value).encode()} for value, _ in values]
    found = refusals("json_schema", {"file": schema}, *records, {"value": b'{"id": 7, "more": "abc"}'}, {"value": None})
    assert [(reason, message) for _, reason, message in found] == [
        ("not_of_schema", UNLIKE + rule) for _, rule in values
    ]
    assert "secret" not in str(found).lower()


def test_what_is_not_json_or_nested_too_deeply_is_rejected_before_it_is_parsed(schema: str, refusals: Refusals) -> None:
    values = [b"{", b'{"id": 1, "a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"]
    found = refusals("json_schema", {"file": schema}, *({"value": value} for value in values))
    assert [message for *_, message in found] == [
        f"{UNLIKE}$: not JSON, ends too early at byte 1",
        f"{UNLIKE}$: not JSON, deeper than 128 at byte 142",
    ]


def test_documents_of_a_folder_are_found_by_path_and_by_id(tmp_path: Path, refusals: Refusals) -> None:
    (tmp_path / "types" / "deep").mkdir(parents=True)
    (tmp_path / "types" / "deep" / "size.json").write_text('{"type": "integer", "maximum": 9}')
    (tmp_path / "types" / "name.json").write_text('{"$id": "https://example.com/name", "type": "string"}')
    root = tmp_path / "root.json"
    properties = {"size": {"$ref": "deep/size.json"}, "name": {"$ref": "https://example.com/name"}}
    root.write_text(json.dumps({"title": "Things", "properties": properties}))
    settings = {"file": str(root), "references": str(tmp_path / "types")}
    values = [b'{"size": 9, "name": "a"}', b'{"size": 10}', b'{"name": 1}']
    found = refusals("json_schema", settings, *({"value": value} for value in values))
    assert [message for *_, message in found] == [
        "Topic orders requires record values to be of the schema Things: $.size: maximum 9",
        "Topic orders requires record values to be of the schema Things: $.name: type string",
    ]


def test_a_format_is_asserted_if_configured(tmp_path: Path, refusals: Refusals) -> None:
    file = tmp_path / "mail.json"
    file.write_text('{"format": "email"}')
    value = {"value": b'"no address"'}
    assert refusals("json_schema", {"file": str(file)}, value) == []
    assert [reason for _, reason, _ in refusals("json_schema", {"file": str(file), "formats": True}, value)] == [
        "not_of_schema"
    ]


REFUSED = [
    ("{", "the schema is not JSON"),
    ('{"type": "nope"}', "valid"),
    ('{"$ref": "http://127.0.0.1:1/x"}', "is not among the documents of this schema"),
    ('{"$ref": "file:///etc/passwd"}', "is not among the documents of this schema"),
    ('{"$schema": "http://127.0.0.1:1/meta"}', "is not present in a registry"),
    ('{"pattern": "(?=x)"}', "regex"),
    ('{"not": ' * 300 + "{}" + "}" * 300, "deeper than 200"),
    (f'{{"description": "{"x" * (1 << 20)}"}}', "at most 1048576"),
]


@for_each(REFUSED)
def test_what_is_no_schema_is_refused_in_one_line_and_nothing_is_fetched(example: tuple[str, str]) -> None:
    text, message = example
    with pytest.raises(JsonSchemaError) as error:
        JsonSchema(text)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_schema_that_refers_to_itself_ends() -> None:
    assert JsonSchema('{"$ref": "#"}').fault_of(b"1") is None
    tree = JsonSchema('{"properties": {"next": {"$ref": "#"}}, "required": ["n"]}')
    assert str(tree.fault_of(b'{"n": 1, "next": {"n": 1, "next": {}}}')) == "$.next.next: required n"


def test_a_pattern_takes_linear_time() -> None:
    schema = JsonSchema('{"pattern": "^(a+)+$"}')
    assert schema.fault_of(b'"' + b"a" * 100_000 + b'!"') is not None


def test_without_the_library_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch, schema: str) -> None:
    monkeypatch.setattr("kafka_sidecar.schemas.json_schema.jsonschema_rs", None)
    with pytest.raises(ValueError, match=r"pip install '\.\[schemas\]'"):
        PolicyCatalog({"it": PolicySettings("json_schema", settings={"file": schema})})
