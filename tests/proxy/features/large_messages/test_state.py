"""What is kept between requests is in one table of the reference."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import get_type_hints

from kafka_sidecar.large_messages.cache import ResumePoints, SegmentCache, Unfinished
from kafka_sidecar.large_messages.intervals import Intervals
from kafka_sidecar.large_messages.segment_index import SegmentIndexes
from kafka_sidecar.plugins.effects import TimeLimit
from kafka_sidecar.proxy.exchanges.held_clients import HiddenOffsets
from kafka_sidecar.proxy.features.large_messages.reads import ReadsAhead
from kafka_sidecar.proxy.features.large_messages.services import AssemblyServices
from kafka_sidecar.proxy.features.large_messages.stats import AssemblyStats

REFERENCE = Path(__file__).parents[4] / "docs/reference/large-messages.md"
ROWS = {
    SegmentCache: "segment cache",
    SegmentIndexes: "segment index",
    Unfinished: "unfinished",
    ReadsAhead: "reads ahead",
    ResumePoints: "resume points",
    HiddenOffsets: "hidden offsets",
    Intervals: "intervals",
}


def test_all_that_assembling_keeps_is_in_the_table_with_its_bound() -> None:
    kinds = {get_type_hints(AssemblyServices)[one.name] for one in fields(AssemblyServices)}
    kept = {one for one in kinds if isinstance(one, type) and one.__module__.startswith("kafka_sidecar")}
    kept |= {one for one in get_type_hints(AssemblyStats).values() if one is Intervals}
    assert kept - {TimeLimit} == ROWS.keys()
    section = REFERENCE.read_text().partition("### State\n")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in section.splitlines() if line.startswith("| ")]
    named = {row[0]: row for row in rows[2:]}
    assert set(ROWS.values()) <= named.keys()
    assert all(len(row) == 5 and all(row) for row in named.values())
    assert all(any(character.isdigit() or character == "`" for character in row[3]) for row in named.values())
