"""The page of ways around a control: each row names tests that exist."""

from __future__ import annotations

import ast
import re

import pytest
from support.pages import ROOT, page, statements, tree

PAGE = page("docs/reference/controls.md")
NAMED = re.compile(r"\[`(?P<test>\w+)`\]\((?P<file>[^)]+)\)")
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.path.read_text(encoding="utf-8").splitlines()
    if line.startswith("| ") and not line.startswith(("| way |", "| --- |"))
]


def test_the_page_has_rows() -> None:
    assert len(ROWS) > 20


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_row_names_the_way_the_result_and_tests_that_exist(row: list[str]) -> None:
    way, result, tested_by = row
    assert way
    assert result
    named = list(NAMED.finditer(tested_by))
    assert ", ".join(one[0] for one in named) == tested_by != ""
    for one in named:
        path = (PAGE.path.parent / one["file"]).resolve().relative_to(ROOT)
        functions = {node.name for node in statements(tree(path)) if isinstance(node, ast.FunctionDef)}
        assert one["test"].startswith("test_")
        assert one["test"] in functions, path
