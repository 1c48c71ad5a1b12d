"""Cells: what is shown of a value."""

from __future__ import annotations

import pytest

from kafka_sidecar.pipeline.report import html


@pytest.mark.parametrize(
    ("value", "shown"),
    [(1, "100 %"), (0.99999999, "99.9999 %"), (0, "0.0000 %"), (None, html.NONE)],
)
def test_a_share_is_never_rounded_up(value: float | None, shown: str) -> None:
    assert html.percent(value) == shown


@pytest.mark.parametrize(("value", "shown"), [(0.5, "0.5 ms"), (1500, "1.5 s"), (90_000, "1.5 min"), (7.2e6, "2 h")])
def test_a_duration_has_its_unit(value: float, shown: str) -> None:
    assert html.milliseconds(value) == shown


def test_text_from_outside_is_escaped() -> None:
    cells = {"<b>": html.text("name"), "n": html.number("n")}
    table = html.table([{"name": "<script>", "n": 1234}, {"name": None, "n": None}], cells, "row")
    assert "<script>" not in table
    assert "&lt;b&gt;" in table
    assert '<tr id="row-1">' in table
    assert "1,234" in table
    assert html.link("a", "<") == '<a href="#a">&lt;</a>'
