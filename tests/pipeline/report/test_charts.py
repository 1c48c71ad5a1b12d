"""Pictures: text that can be read, colours of the page, no id twice."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from kafka_sidecar.pipeline.report.charts import INK, Scale, bars, clock, lines

LINE = {"p50": ([0, 60_000, 240_000], [1.0, 2.0, 3.0])}


def test_a_line_has_title_axes_with_units_and_legend_as_text() -> None:
    svg = lines("Latency", Scale("latency (ms)", is_log=True), LINE, [(0, 60_000)], step=60_000)
    texts = {element.text for element in ElementTree.fromstring(svg).iter("text")}
    assert {"Latency", "latency (ms)", "event time (UTC)", "p50", "UNKNOWN"} <= texts


def test_a_picture_takes_its_colour_from_the_page_and_names_nothing_outside() -> None:
    svg = bars("Rejected", "records", ["orders", "a & b"], {"rejected": [3, 0], "failed": [1, 2]})
    assert "currentColor" in svg
    assert INK not in svg
    assert "http" not in svg
    assert 'aria-label="Rejected"' in svg


def test_ids_of_two_pictures_differ() -> None:
    one, other = (set(re.findall(r' id="([^"]*)"', lines(name, Scale("s"), LINE))) for name in ("a: x", "b: x"))
    assert one
    assert not one & other


def test_a_line_is_broken_where_a_step_is_missing() -> None:
    line = {"p50": ([0, 60_000, 240_000, 300_000], [1.0, 2.0, 3.0, 2.0])}
    whole, broken = (lines("a", Scale("s"), line, step=step).count("M ") for step in (0, 60_000))
    assert broken == whole + 1


def test_all_points_are_within_the_picture() -> None:
    svg = lines("a", Scale("s", 0), {"max": ([0, 60_000], [5.0, 400.0])})
    (path,) = re.findall(r'<path d="M ([^"]*)" clip-path="[^"]*" style="fill: none; stroke: #3b', svg)
    heights = [float(number) for number in re.findall(r"[\d.-]+ ([\d.-]+)", path)]
    assert len(heights) == 2
    assert min(heights) > 0


def test_an_axis_has_no_tick_above_what_can_be() -> None:
    for values, room in (([100.0, 100.0], 0.5), ([100.0, 65.0], 1.75)):
        scale = Scale("complete (%)", min(values) - room, 100, room)
        texts = [
            element.text
            for element in ElementTree.fromstring(lines("a", scale, {"p": ([0, 60_000], values)})).iter("text")
        ]
        ticks = [float(one) for one in texts if one and one.replace(".", "").isdecimal() and float(one) > 60]
        assert ticks
        assert max(ticks) == 100


def test_a_clock_is_utc() -> None:
    assert clock(1_767_225_600_000) == "2026-01-01 00:00:00"
