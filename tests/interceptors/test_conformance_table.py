"""The reference of the contract: a row with existing tests for each rule, and an example that runs."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest
from support.pages import ROOT, page, statements, tree

from kafka_sidecar.codec.records import Header
from kafka_sidecar.interceptors.contract import ConsumerInterceptor, Context, ProducerInterceptor
from kafka_sidecar.interceptors.records import ConsumerRecord, ConsumerRecords, ProducerRecord

REFERENCE = page("docs/reference/interceptors.md")
RULES = [
    f"{kind}{number}" for kind, count in (("P", 10), ("C", 7), ("K", 8), ("H", 9)) for number in range(1, count + 1)
]
NAMED = re.compile(r"\[`(?P<test>\w+)`\]\((?P<file>[^)]+)\)")
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in REFERENCE.section("Conformance").splitlines()
    if re.match(r"\| [PCKH]\d", line)
]


@cache
def functions_of(path: Path) -> set[str]:
    return {node.name for node in statements(tree(path)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_every_rule_has_its_row_in_order() -> None:
    assert [row[0] for row in ROWS] == RULES


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_every_row_has_a_rule_our_behaviour_and_existing_tests(row: list[str]) -> None:
    _, rule, here, held_by = row
    assert rule
    assert here
    named = list(NAMED.finditer(held_by))
    assert ", ".join(one[0] for one in named) == held_by != ""
    for one in named:
        path = (REFERENCE.path.parent / one["file"]).resolve().relative_to(ROOT)
        assert path.name.startswith("test_")
        assert one["test"].startswith("test_")
        assert one["test"] in functions_of(path), path


def test_every_comparison_with_java_is_in_the_table() -> None:
    compared = {
        name for name in functions_of(Path("tests/integration/interception/test_conformance.py")) if "test_" in name
    }
    assert compared - {one["test"] for row in ROWS for one in NAMED.finditer(row[3])} == set()


def test_every_hook_has_its_row_and_no_other_is_there() -> None:
    hooks = {name for kind in (ProducerInterceptor, ConsumerInterceptor) for name in dir(kind) if name[0] != "_"}
    assert {signature.partition("(")[0] for signature in REFERENCE.first_column("Hooks")} == hooks


def test_the_documented_example_class_runs() -> None:
    names: dict[str, type] = {"__name__": "reference"}  # type: ignore[dict-item]
    for block in REFERENCE.blocks:
        if block.language == "python":
            exec(block.text, names)
    origin = names["Origin"]()
    origin.configure({})
    sent = origin.on_send(ProducerRecord("t", 0, context=Context(clock=lambda: 0, client_id="me")))
    assert sent.headers.to_tuple() == (Header("origin", b"me"),)
    records = [ConsumerRecord("t", 0, 1), ConsumerRecord("t", 0, 2, headers=[("test", None)])]
    assert [record.offset for record in origin.on_consume(ConsumerRecords(records))] == [1]
