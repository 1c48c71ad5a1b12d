"""No built-in policy parses a large value in this process: all connections would wait for that."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from support.jws import SigningKey, key_set
from support.large_values import TEXTS, record_parses

from kafka_sidecar.policies.builtin import cel
from kafka_sidecar.policies.builtin import json as json_policy
from kafka_sidecar.policies.registry import POLICIES
from kafka_sidecar.schemas import json_schema
from kafka_sidecar.schemas.own_process import OwnProcess, TookTooLongError

Refusals = Callable[..., list[tuple[int, str, str]]]
FILES = {
    "a.avsc": '{"type": "record", "name": "A", "fields": [{"name": "a", "type": "string"}]}',
    "a.proto": 'syntax = "proto3"; message A { string a = 1; }',
    "a.json": '{"required": ["a"]}',
    "keys.json": key_set(SigningKey("k", "ES256")),
}
JSON_SCHEMA = {"language": "json_schema", "file": "a.json"}
# Those that look into contents, each with what makes it do so.
SETTINGS: dict[str, list[dict[str, Any]]] = {
    "avro": [{"file": "a.avsc"}],
    "cel": [
        {"expression": "value.a != 'x' && key != 'x'"},
        {"expression": "value.a != 'x'", "schema": JSON_SCHEMA},
        {"expression": "value.a != 'x'", "schema": JSON_SCHEMA, "prefix": "confluent"},
        {"expression": "value.a != 'x'", "prefix": "confluent"},
        {"expression": "key.a != 'x'", "key_schema": JSON_SCHEMA},
    ],
    "headers": [{"required": ["a"]}],
    "json": [{}, {"part": "both"}, {"unique_keys": True, "part": "both"}, {"exact_numbers": True}],
    "json_schema": [{"file": "a.json"}, {"file": "a.json", "part": "key"}],
    "jws": [{"jwks_file": "keys.json"}],
    "key": [{"pattern": "x*"}],
    "limits": [{"max_value_bytes": 1}],
    "protobuf": [{"file": "a.proto"}],
    "require_header": [{"key": "a"}],
    "schema": [{"require": "id"}],
    "timestamp": [{"before_max": "1h"}],
}
CASES = [(name, settings) for name, each in SETTINGS.items() for settings in each]


@pytest.fixture(scope="module")
def process() -> Iterator[OwnProcess]:
    made = OwnProcess()
    yield made
    made.close()


@pytest.fixture(autouse=True)
def shared(process: OwnProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (cel, json_policy, json_schema):
        monkeypatch.setattr(module, "SHARED", process)


def with_files(folder: Path, settings: Any) -> Any:
    if isinstance(settings, dict):
        return {name: with_files(folder, one) for name, one in settings.items()}
    return str(folder / settings) if isinstance(settings, str) and settings in FILES else settings


def test_all_built_in_policies_are_here() -> None:
    assert sorted(SETTINGS) == sorted(POLICIES.built_in)


@pytest.mark.parametrize(("name", "settings"), CASES)
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_no_large_value_is_parsed_here(
    name: str, settings: Any, text: bytes, tmp_path: Path, refusals: Refusals, monkeypatch: pytest.MonkeyPatch
) -> None:
    for file, contents in FILES.items():
        (tmp_path / file).write_text(contents)
    seen = record_parses(monkeypatch)
    monkeypatch.setattr(cel, "evaluate", lambda *_: seen.append("cel"))
    data = b"\0\0\0\0\1" + text if settings.get("prefix") == "confluent" else text
    headers = [("a", text), ("kroxylicious.io/jws", text)]
    found = refusals(name, with_files(tmp_path, settings), {"value": data, "key": data, "headers": headers})
    assert seen == []
    if name in ("cel", "json", "json_schema"):
        assert found == [], "it was looked at"


def test_a_parser_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = record_parses(monkeypatch)
    for text in TEXTS.values():
        orjson.loads(text)
        json.JSONDecoder().decode(text.decode())
    assert len(seen) == 2 * len(TEXTS)


@pytest.mark.parametrize(
    ("setting", "good", "bad", "reason"),
    [
        ("unique_keys", b'{"a": 1, "b": "%s"}', b'{"a": 1, "a": "%s"}', "duplicate_key"),
        ("exact_numbers", b'[1, "%s"]', b'[1e999, "%s"]', "big_number"),
    ],
)
def test_large_texts_are_checked_there_as_small_ones_are_here(
    setting: str, good: bytes, bad: bytes, reason: str, refusals: Refusals
) -> None:
    for size in (0, json_policy.MAX_HERE):
        found = refusals("json", {setting: True}, *({"value": one % (b"x" * size)} for one in (good, bad, good)))
        assert [(index, why) for index, why, _ in found] == [(1, reason)]


def test_a_text_that_takes_too_long_is_rejected(
    refusals: Refusals, process: OwnProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    def call(*_: object) -> bool:
        raise TookTooLongError("more than 5 s")

    monkeypatch.setattr(process, "call", call)
    text = "Topic orders requires record values to be JSON: not evaluated, it takes more than 5 s"
    large = {"value": TEXTS["numbers"]}
    assert refusals("json", {"unique_keys": True}, {"value": b"1"}, large) == [(1, "not_evaluated", text)]
