"""The page: whole, self-contained, and with links that lead somewhere."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pyarrow
import pytest
from pyspark.sql import SparkSession

from kafka_sidecar.pipeline.report.page import render
from kafka_sidecar.pipeline.report.sections import Report, compute
from pipeline.reconcile.traffic import START

OPEN_ENDED = {"meta", "br"}


class Elements(HTMLParser):
    """Ids, links and tags of a page; wrong nesting is an error."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.tags: set[str] = set()
        self._open: list[str] = []
        self.feed(text)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        values = dict(attrs)
        self.ids += [values["id"] or ""] if "id" in values else []
        self.links += [values["href"] or ""] if "href" in values else []
        if tag not in OPEN_ENDED:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag


def test_the_page_loads_nothing_and_every_link_leads_to_one_place(report: Report) -> None:
    text = render(report, START)
    page = Elements(text)
    assert not page.tags & {"script", "img", "link", "iframe"}
    assert "http" not in text
    assert len(page.ids) == len(set(page.ids))
    assert page.links
    assert {link.removeprefix("#") for link in page.links} <= set(page.ids)
    assert {link[:6] for link in page.links} >= {"#loss-", "#hole-", "#bucke"}


def test_the_page_is_made_for_phones_and_dark_rooms(report: Report) -> None:
    text = render(report, START)
    assert 'name="viewport" content="width=device-width, initial-scale=1"' in text
    assert "color-scheme: light dark" in text


def test_the_first_figures_are_those_of_the_topics(report: Report) -> None:
    text = render(report, START)
    lost = sum(row["missing"] for row in report.sections["topics"].to_pylist() if row["hop"] == "deliver")
    assert lost
    assert re.search(rf'<b class="bad">{lost:,}</b>records lost', text)


def test_a_name_from_outside_is_only_text(report: Report) -> None:
    topics = report.sections["topics"]
    index = topics.schema.get_field_index("topic")
    named = topics.set_column(index, "topic", pyarrow.array(["<script>alert(1)</script>"] * topics.num_rows))
    assert "<script>" not in render(replace(report, sections=report.sections | {"topics": named}), START)


def test_copies_of_records_have_no_group(report: Report) -> None:
    losses = report.sections["losses"]
    columns = {"group": [None], "finding": ["duplicate"]}
    for name, values in columns.items():
        array = pyarrow.array(values * losses.num_rows, pyarrow.string())
        losses = losses.set_column(losses.schema.get_field_index(name), name, array)
    text = render(replace(report, sections=report.sections | {"losses": losses}), START)
    assert "<br>produce</td>" in text
    assert Elements(text).tags


def test_without_data_the_page_says_so(spark: SparkSession, tmp_path: Path) -> None:
    text = render(compute(spark, str(tmp_path), 0), START)
    assert "There is no data" in text
    assert Elements(text).tags >= {"h1", "p"}


@pytest.mark.parametrize("section", ["losses", "holes", "alerts", "worst", "rejections", "latency"])
def test_a_section_without_rows_says_so(report: Report, section: str) -> None:
    sections = report.sections | {section: report.sections[section].slice(0, 0)}
    before, after = (render(one, START) for one in (report, replace(report, sections=sections)))
    said = re.compile(r'<p class="good">|No latency')
    assert len(said.findall(after)) == len(said.findall(before)) + 1


def test_a_replay_is_shown_beside_what_was_rejected(report: Report) -> None:
    row = {"topic": "orders", "policy": "json", "reason": "syntax", "error_code": 87, "records": 31337, "batches": 2}
    text = render(replace(report, sections=report.sections | {"replay": pyarrow.Table.from_pylist([row])}), START)
    assert "31,337" in text
