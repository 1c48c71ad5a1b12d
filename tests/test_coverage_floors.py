"""The table of floors names modules that exist, and a module under its floor is seen."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.coverage_floors import FLOOR, FLOORS, main, ranges, rows, table
from support.pages import ROOT


def report(**percents: float) -> dict[str, Any]:
    return {
        "files": {
            name: {"summary": {"percent_covered": percent}, "missing_lines": [4, 5, 9]}
            for name, percent in percents.items()
        }
    }


def test_every_floor_is_that_of_a_module_and_lower_than_the_one_of_all() -> None:
    assert [name for name in FLOORS if not (ROOT / name).is_file()] == []
    assert [name for name, floor in FLOORS.items() if floor >= FLOOR] == []


def test_modules_under_their_floor_are_found_the_least_covered_first() -> None:
    found = list(rows(report(whole=100, low=94.9, own=80.5, under=79.9), {"own": 80, "under": 80}, 95))
    assert [(row.module, row.is_under) for row in found] == [
        ("under", True),
        ("own", False),
        ("low", True),
        ("whole", False),
    ]
    assert table(found).splitlines()[1].split() == ["under", "79.9%", "80%", "UNDER", "ITS", "FLOOR", "4-5,", "9"]


@pytest.mark.parametrize(("percent", "code"), [(FLOOR, 0), (FLOOR - 0.1, 1)])
def test_the_exit_code_says_whether_all_is_well(
    percent: float, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "coverage.json"
    path.write_text(json.dumps(report(module=percent)))
    assert main(str(path)) == code
    assert capsys.readouterr().out.startswith("module ")


def test_lines_in_a_row_are_one_range() -> None:
    assert ranges([1, 2, 3, 7, 9, 10]) == "1-3, 7, 9-10"
    assert ranges([]) == ""
