"""The rig of `make bench-records`: its records are as documented, and its verdicts follow from its figures."""

from __future__ import annotations

from random import Random

import pytest
import records as bench

from kafka_sidecar.codec.records import Codec, batches, build_batch

pytestmark = pytest.mark.program


@pytest.mark.parametrize("workload", bench.WORKLOADS[:10], ids=[workload.title for workload in bench.WORKLOADS[:10]])
def test_batches_have_the_size_in_their_title(workload: bench.Workload) -> None:
    (batch,) = batches(build_batch(bench.records_of(workload)))
    count = batch.header.count

    assert abs(len(batch.data) / count - workload.record_bytes) < 0.05 * workload.record_bytes
    assert abs(len(batch.data) - workload.batch_bytes) < 0.05 * workload.batch_bytes


def test_records_compress_like_those_of_applications() -> None:
    large, small = (
        len(build_batch(records)) / len(build_batch(records, codec=Codec.LZ4))
        for records in map(bench.records_of, bench.WORKLOADS[:10:5])
    )

    assert 1.9 < large < 2.9
    assert 1.4 < small < 2.2


def test_every_step_is_measured_per_record() -> None:
    data = build_batch(bench.records_of(bench.WORKLOADS[-1]), codec=Codec.SNAPPY)

    runs = bench.measure(data, reps=2, chance=Random(1))

    assert list(runs) == bench.STEPS
    assert all(len(values) == 2 and min(values) > 0 for values in runs.values())


def test_ratios_are_taken_within_a_repetition() -> None:
    workload = bench.Workload(Codec.LZ4, 1000, 1 << 20, target=1.15, edit_target=1.25)
    runs = {
        bench.ALONE: [100.0, 200.0, 400.0],
        bench.WHOLE: [110.0, 220.0, 500.0],
        bench.WALK: [20.0, 20.0, 40.0],
        bench.POLICY: [130.0, 121.0, 130.0],
        bench.PACKED: [1000.0, 2000.0, 1000.0],
        bench.EDITED: [1300.0, 2600.0, 1100.0],
    }

    row = bench.row(workload, runs)

    assert row.cells == {
        bench.ALONE: "200",
        bench.WHOLE: "220 (1.10x) met",
        bench.WALK: "20",
        bench.POLICY: "130 (+101) MISSED",
        bench.PACKED: "1000",
        bench.EDITED: "1300 (1.30x) MISSED",
    }
    assert (row.measure, row.target) == ("1 KB, lz4, batches of 1 MB", "<= 1.15x, policy <= +100 ns, header <= 1.25x")
