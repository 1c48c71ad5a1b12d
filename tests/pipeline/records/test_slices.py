"""Ranges of offsets, cut into tasks."""

from __future__ import annotations

import pytest

from kafka_sidecar.pipeline.records.slices import MAX_SLICE_OFFSETS, cut_slices

RANGES = {("orders", 0): (5, 1_000_005), ("orders", 1): (0, 0), ("refunds", 0): (7, 30_007)}


@pytest.mark.parametrize("cores", [1, 2, 64])
def test_slices_cover_each_range_once(cores: int) -> None:
    slices = cut_slices(RANGES, cores)
    for (topic, partition), (first, end) in RANGES.items():
        mine = [one for one in slices if (one.topic, one.partition) == (topic, partition)]
        assert [offset for one in mine for offset in (one.first, one.end)][1:-1:2] == [one.first for one in mine][1:]
        assert not mine or (mine[0].first, mine[-1].end) == (first, end)
        assert all(0 < one.end - one.first <= MAX_SLICE_OFFSETS for one in mine)


def test_more_cores_get_more_slices() -> None:
    assert len(cut_slices(RANGES, 64)) > len(cut_slices(RANGES, 2))
