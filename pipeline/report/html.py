"""Pieces of the page as HTML; whatever comes from outside is escaped here."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

from kafka_sidecar.pipeline.report.charts import clock

Row = dict[str, Any]
NONE = "&ndash;"


class Cell:
    """What a column shows of a row."""

    def __init__(self, show: Callable[[Row], str], is_number: bool = False) -> None:
        self.show = show
        self.attribute = ' class="number"' if is_number else ""


def text(name: str) -> Cell:
    return Cell(lambda row: NONE if row[name] is None else escape(str(row[name])))


def number(name: str) -> Cell:
    return Cell(lambda row: count(row[name]), is_number=True)


def share(name: str) -> Cell:
    return Cell(lambda row: percent(row[name]), is_number=True)


def time(name: str) -> Cell:
    return Cell(lambda row: NONE if row[name] is None else clock(row[name]))


def duration(name: str) -> Cell:
    return Cell(lambda row: NONE if row[name] is None else milliseconds(row[name]), is_number=True)


def count(value: int | None) -> str:
    return NONE if value is None else f"{value:,}"


def percent(value: float | None) -> str:
    """Never rounded up: 100 % means all."""
    if value is None:
        return NONE
    return "100 %" if value == 1 else f"{math.floor(value * 1_000_000) / 10_000:.4f} %"


def milliseconds(value: float) -> str:
    for unit, size in (("h", 3_600_000), ("min", 60_000), ("s", 1000)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.3g} ms"


def state(name: str = "state") -> Cell:
    colours = {"UNKNOWN": "unknown", "unknown": "unknown", "lost": "bad"}
    return Cell(lambda row: f'<span class="{colours.get(row[name], "")}">{escape(str(row[name]))}</span>')


def link(anchor: str | None, label: str) -> str:
    return escape(label) if anchor is None else f'<a href="#{escape(anchor)}">{escape(label)}</a>'


def table(rows: Sequence[Row], cells: Mapping[str, Cell], anchor: str = "") -> str:
    """A table that scrolls sideways where the page is narrow; ``anchor`` and the row's index are its id."""
    head = "".join(f"<th{cell.attribute}>{escape(title)}</th>" for title, cell in cells.items())
    body = []
    for index, row in enumerate(rows):
        name = f' id="{anchor}-{index}"' if anchor else ""
        columns = "".join(f"<td{cell.attribute}>{cell.show(row)}</td>" for cell in cells.values())
        body.append(f"<tr{name}>{columns}</tr>")
    return f'<div class="table"><table><thead><tr>{head}</tr></thead><tbody>{"".join(body)}</tbody></table></div>'


def paragraph(words: str, kind: str = "") -> str:
    return f'<p class="{kind}">{escape(words)}</p>' if kind else f"<p>{escape(words)}</p>"


def figures(values: Mapping[str, tuple[str, str]]) -> str:
    """Large numbers: title to (value, class)."""
    items = (f'<li><b class="{kind}">{value}</b>{escape(title)}</li>' for title, (value, kind) in values.items())
    return f'<ul class="figures">{"".join(items)}</ul>'
