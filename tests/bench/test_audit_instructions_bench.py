"""`bench/audit_instructions.py`: what valgrind runs is relayed and counted, and offsets ascend where a row says so."""

from __future__ import annotations

import audit_instructions as bench
import pytest

from kafka_sidecar.codec.records import batches

pytestmark = pytest.mark.program

ROWS = bench.table_rows("")


@pytest.mark.parametrize("row", ROWS, ids=[row.title for row in ROWS])
def test_a_measurement_begins_and_ends_with_a_mark(row: bench.Row) -> None:
    marks: list[None] = []

    bench.relay_all([row], row.load.depth, lambda: marks.append(None))

    assert len(marks) == 4


def test_the_offsets_of_a_response_follow_those_of_the_one_before() -> None:
    long = bench.table_rows("960")[0].load

    moved = batches(bench.moved(long.fetch_records, 960))

    assert [one.header.base_offset for one in moved] == [960 + 15 * at for at in range(64)]


def test_the_instructions_of_a_file_are_read() -> None:
    found = bench.TOTAL.search("events: Ir\nsummary: 4525982\n\n")
    assert found
    assert found[1] == "4525982"
