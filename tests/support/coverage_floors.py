"""Coverage by package: `make coverage` prints the table, and fails if a package is under its floor.

Measured are lines and branches of the unit tests on the Python sources. What needs a broker or a program is tested by
other tasks and counts as missing here.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

FLOOR = 95  # per cent, of every package
LEAST = 10  # modules that are listed


class Row(NamedTuple):
    name: str  # of a package or a module
    covered: int  # lines and branches
    all: int

    @property
    def percent(self) -> float:
        return 100 * self.covered / self.all if self.all else 100.0


def modules(report: Mapping[str, Any]) -> list[Row]:
    """A row for each module of what `coverage json` wrote, the least covered first."""
    rows = [_row(name, file["summary"]) for name, file in report["files"].items()]
    return sorted(rows, key=lambda row: (row.percent, row.name))


def packages(of: Iterable[Row]) -> list[Row]:
    """The sums of these modules."""
    sums: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
    for row in of:
        one = sums[row.name.partition("/")[0]]
        one[0] += row.covered
        one[1] += row.all
    return [Row(name, *one) for name, one in sorted(sums.items())]


def _row(name: str, summary: Mapping[str, int]) -> Row:
    return Row(
        name,
        summary["covered_lines"] + summary["covered_branches"],
        summary["num_statements"] + summary["num_branches"],
    )


def table(of: Iterable[Row], least: Iterable[Row]) -> Iterator[str]:
    yield f"{'package':50} {'cover':>6}, at least {FLOOR}%"
    for row in of:
        yield f"{row.name:50} {row.percent:5.1f}%{' UNDER THE FLOOR' * (row.percent < FLOOR)}"
    yield "least covered:"
    for row in least:
        yield f"{row.name:50} {row.percent:5.1f}%"


def main(path: str) -> int:
    found = modules(json.loads(Path(path).read_text()))
    sums = packages(found)
    print("\n".join(table(sums, found[:LEAST])))
    return any(row.percent < FLOOR for row in sums)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
