"""Writes "Features together" into docs/compatibility.md once all pairs were run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from harness.versions import NEWEST, ROOT
from integration.together.covering import Run, pairs, singles
from integration.together.features import FEATURES, exclude_each_other

PAGE = ROOT / "docs" / "compatibility.md"
BEGIN, END = "<!-- features together: begin -->", "<!-- features together: end -->"
PASSES, FAILS, NONE = "✓", "**fails**", "n/a"


def lines(passed: Mapping[Run, bool]) -> Iterator[str]:
    """The table: on the diagonal a feature alone."""
    names = list(FEATURES)
    yield from (f"{number}. {FEATURES[name].about}" for number, name in enumerate(names, 1))
    count = sum(passed[run] for run in pairs())
    yield from ("", f"Broker {NEWEST}; {count} of {len(pairs())} pairs pass. On the diagonal: a feature alone.", "")
    yield f"| | {' | '.join(map(str, range(1, len(names) + 1)))} |"
    yield "|---" * (len(names) + 1) + "|"
    for row, name in enumerate(names):
        cells = [_cell(name, other, passed) if column <= row else "" for column, other in enumerate(names)]
        yield f"| {row + 1} | {' | '.join(cells)} |"


def _cell(name: str, other: str, passed: Mapping[Run, bool]) -> str:
    if exclude_each_other(name, other):
        return NONE
    return PASSES if passed[frozenset({name, other})] else FAILS


def write(passed: Mapping[Run, bool], page: Path = PAGE) -> bool:
    """Replaces what is between the markers if all pairs were run; whether it did."""
    if not {*pairs(), *singles()} <= {*passed}:
        return False
    before, rest = page.read_text().split(BEGIN)
    after = rest.split(END)[1]
    page.write_text(f"{before}{BEGIN}\n\n" + "".join(f"{line}\n" for line in lines(passed)) + f"\n{END}{after}")
    return True
