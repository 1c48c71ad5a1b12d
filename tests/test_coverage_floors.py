"""A package under its floor is seen."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.coverage_floors import FLOOR, main, modules, packages


def report(**covered: int) -> dict[str, Any]:
    """Of modules with 1000 lines and branches each: how many are covered."""
    return {
        "files": {
            name.replace("_", "/"): {
                "summary": {
                    "covered_lines": count - 100, "num_statements": 900, "covered_branches": 100, "num_branches": 100,
                }
            }
            for name, count in covered.items()
        }
    }  # fmt: skip


def test_packages_are_sums_of_their_modules_and_the_least_covered_modules_come_first() -> None:
    found = modules(report(codec_a=1000, codec_b=900, proxy_c=990))
    assert [(row.name, row.percent) for row in found] == [("codec/b", 90), ("proxy/c", 99), ("codec/a", 100)]
    assert [(row.name, row.percent) for row in packages(found)] == [("codec", 95), ("proxy", 99)]


@pytest.mark.parametrize(("covered", "code"), [(10 * FLOOR, 0), (10 * FLOOR - 1, 1)])
def test_the_exit_code_says_whether_all_is_well(
    covered: int, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "coverage.json"
    path.write_text(json.dumps(report(codec_a=covered, proxy_b=1000)))
    assert main(str(path)) == code
    assert ("UNDER THE FLOOR" in capsys.readouterr().out) == bool(code)
