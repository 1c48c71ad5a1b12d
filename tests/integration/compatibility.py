"""Writes the results of the matrix into docs/compatibility.md: each table of which all cells were run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.versions import BROKERS, NEWEST, ROOT
from integration.fronts import SECURED
from integration.matrix import NODES, SCENARIOS, SECURED_SCENARIOS, Cell, Scenario

PAGE = ROOT / "docs" / "compatibility.md"
BEGIN, END = "<!-- generated: begin -->", "<!-- generated: end -->"
PASSES, FAILS = "passes", "**fails**"


@dataclass(frozen=True, slots=True)
class Table:
    """A title, the names of columns, and the cells of each scenario."""

    title: str
    columns: Sequence[str]
    rows: Mapping[Scenario, Sequence[Cell]]
    legend: Sequence[str] = ()

    @property
    def cells(self) -> Iterable[Cell]:
        return (cell for row in self.rows.values() for cell in row)

    def lines(self, passed: Mapping[Cell, bool]) -> Iterator[str]:
        """From the title to the end, with an empty line after each."""
        reasons: list[str] = []
        heads = ("client", "does", *self.columns)
        yield from (f"## {self.title}", "")
        yield from (f"* {line}" for line in self.legend)
        yield from ([""] if self.legend else [])
        yield from (f"| {' | '.join(heads)} |", "|---" * len(heads) + "|")
        for scenario, row in self.rows.items():
            shown = [_shown(cell, passed[cell], reasons) for cell in row]
            yield f"| {scenario.client} | {scenario.name} | {' | '.join(shown)} |"
        yield ""
        for number, reason in enumerate(reasons, 1):
            yield f"{number}. Not available directly: {reason}."
        yield from ([""] if reasons else [])


TABLES = (
    *(
        Table(
            f"Broker {broker}",
            ("1 node", "3 nodes"),
            {one: [Cell(one, broker, nodes) for nodes in NODES] for one in SCENARIOS},
        )
        for broker in BROKERS
    ),
    Table(
        f"Broker {NEWEST} with TLS and SASL",
        tuple(front.name for front in SECURED),
        {one: [Cell(one, NEWEST, 1, front) for front in SECURED] for one in SECURED_SCENARIOS},
        tuple(f"{front.name}: {front.about}." for front in SECURED),
    ),
)


def write(passed: dict[Cell, bool], page: Path = PAGE) -> list[str]:
    """Replaces each table between the markers of which every cell was run; returns their titles."""
    before, rest = page.read_text().split(BEGIN)
    generated, after = rest.split(END)
    old = {text.partition("\n")[0]: f"## {text}" for text in re.split(r"^## ", generated, flags=re.MULTILINE)[1:]}
    new = {table.title: "\n".join([*table.lines(passed), ""]) for table in TABLES if set(table.cells) <= set(passed)}
    if new:
        kept = [(old | new).get(table.title, "") for table in TABLES]
        page.write_text(before + BEGIN + "\n\n" + "".join(kept) + END + after)
    return list(new)


def _shown(cell: Cell, has_passed: bool, reasons: list[str]) -> str:
    if not has_passed:
        return FAILS
    if cell.reason is None:
        return PASSES
    if cell.reason not in reasons:
        reasons.append(cell.reason)
    return f"n/a ({reasons.index(cell.reason) + 1})"
