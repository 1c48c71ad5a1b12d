"""Log lines: one JSON object each, and no key that is not in the list."""

from __future__ import annotations

import ast
import json
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafka_sidecar import proxy
from kafka_sidecar.proxy.telemetry.logs import KEYS, JsonLines

SOURCES = sorted(Path(*proxy.__path__).rglob("*.py"))


def line(message: str = "connection ended", **extra: Any) -> dict[str, Any]:
    record = logging.LogRecord("kafka_sidecar.proxy.server", logging.INFO, "", 0, message, (), None)
    vars(record).update(extra)
    text = JsonLines().format(record)
    assert "\n" not in text
    read: dict[str, Any] = json.loads(text)
    return read


FUNCTIONS_WITH_KEYS = (
    "keys_of(",
    "connection_keys(",
    "closed_keys(",
    "end_keys(",
    "rejection_keys(",
)  # their results are part of ``extra``


def keys_passed(tree: ast.AST) -> Iterator[str]:
    """The keys of every ``extra={...}``, of the dictionary that a method called ``summary`` returns, and those that a
    filter sets on a record.
    """
    for extra in extras(tree):
        if isinstance(extra, ast.Dict):
            yield from keys_of(extra)
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id="record"), attr=key, ctx=ast.Store()):
                yield key
        if isinstance(node, ast.FunctionDef) and f"{node.name}(" in FUNCTIONS_WITH_KEYS:
            yield from (key for part in ast.walk(node) if isinstance(part, ast.Dict) for key in keys_of(part))


def extras(tree: ast.AST) -> Iterator[ast.expr]:
    """What is passed as ``extra`` to the loggers, all of which are called ``log``."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        passed = [one.value for one in node.keywords if one.arg == "extra"]
        if passed and ast.unparse(node.func).startswith("log."):
            yield from passed


def keys_of(literal: ast.Dict) -> Iterator[str]:
    for key in filter(None, literal.keys):  # None: of another mapping
        assert isinstance(key, ast.Constant), ast.unparse(literal)
        yield str(key.value)


@pytest.mark.bulk
def test_the_list_has_exactly_the_keys_that_the_sources_pass() -> None:
    assert {key for path in SOURCES for key in keys_passed(ast.parse(path.read_text()))} == KEYS


@pytest.mark.bulk
def test_every_extra_is_a_literal_that_the_test_above_can_read() -> None:
    for path in SOURCES:
        for extra in extras(ast.parse(path.read_text())):
            if isinstance(extra, ast.Dict):
                spread = [value for key, value in zip(extra.keys, extra.values, strict=True) if key is None]
            else:
                spread = [extra]
            for one in spread:
                assert ast.unparse(one).startswith(FUNCTIONS_WITH_KEYS), ast.unparse(one)


def test_a_long_value_is_cut() -> None:
    record = logging.makeLogRecord({"msg": "connection ended", "client_id": "c" * 30_000})
    assert json.loads(JsonLines().format(record))["client_id"] == "c" * 1000


def test_a_line_has_timestamp_level_logger_and_message() -> None:
    record = logging.LogRecord("kafka_sidecar.proxy.server", logging.WARNING, "", 0, "retried %s", ("twice",), None)
    record.created = 1_700_000_000.25
    assert json.loads(JsonLines().format(record)) == {
        "timestamp": "2023-11-14T22:13:20.250Z",
        "level": "warning",
        "logger": "kafka_sidecar.proxy.server",
        "message": "retried twice",
    }


def test_keys_without_a_value_are_omitted() -> None:
    read = line(node=7, client_id=None, bootstrap_servers=["a:1"], cause="drain")
    assert (read["node"], read["bootstrap_servers"], read["cause"]) == (7, ["a:1"], "drain")
    assert "client_id" not in read


def test_keys_that_are_not_in_the_list_are_omitted() -> None:
    assert "payload" not in line(payload="secret")


@pytest.mark.parametrize("value", ["two\nlines", "\udcff", "\x00", b"bytes", Path("x"), {1: 2}, float("inf")])
def test_unusual_values_do_not_break_a_line(value: object) -> None:
    assert "detail" in line(detail=value)


def test_a_traceback_is_part_of_the_line() -> None:
    try:
        raise ValueError("two\nlines")
    except ValueError:
        record = logging.LogRecord("x", logging.ERROR, "", 0, "broke", (), sys.exc_info())
    text = JsonLines().format(record)
    assert "\n" not in text
    assert "ValueError: two\nlines" in json.loads(text)["traceback"]
