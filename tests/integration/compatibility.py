"""Writes the results of a full run of the matrix into docs/compatibility.md."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from harness.versions import BROKERS, ROOT
from integration.matrix import CELLS, NODES, SCENARIOS, Cell

PAGE = ROOT / "docs" / "compatibility.md"
BEGIN, END = "<!-- generated: begin -->", "<!-- generated: end -->"
PASSES, FAILS = "passes", "**fails**"


def write(passed: dict[Cell, bool], page: Path = PAGE) -> bool:
    """Replaces the text between the markers if every cell was run; returns whether it was."""
    if set(passed) != set(CELLS):
        return False
    before, rest = page.read_text().split(BEGIN)
    _, after = rest.split(END)
    page.write_text(before + "\n".join([BEGIN, *_tables(passed), END]) + after)
    return True


def _tables(passed: dict[Cell, bool]) -> Iterator[str]:
    for broker in BROKERS:
        reasons: list[str] = []
        yield from ("", f"## Broker {broker}", "", "| client | does | 1 node | 3 nodes |", "|---|---|---|---|")
        for scenario in SCENARIOS:
            cells = [Cell(scenario, broker, nodes) for nodes in NODES]
            shown = [_shown(cell, passed[cell], reasons) for cell in cells]
            yield f"| {scenario.client} | {scenario.name} | {' | '.join(shown)} |"
        yield ""
        for number, reason in enumerate(reasons, 1):
            yield f"{number}. Not available directly: {reason}."
    yield ""


def _shown(cell: Cell, has_passed: bool, reasons: list[str]) -> str:
    if not has_passed:
        return FAILS
    if cell.reason is None:
        return PASSES
    if cell.reason not in reasons:
        reasons.append(cell.reason)
    return f"n/a ({reasons.index(cell.reason) + 1})"
