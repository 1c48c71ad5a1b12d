"""`make bench-audit` with Kafka's own clients: what its table says."""

from __future__ import annotations

import audit_clients as bench
import pytest

pytestmark = pytest.mark.program


@pytest.mark.parametrize(("costs", "cell"), [((1.0, 1.04), "met"), ((1.2, 1.3), "MISSED")])
def test_the_cost_of_auditing_is_a_ratio_within_repetitions(costs: tuple[float, float], cell: str) -> None:
    names = [bench.NONE, bench.AUDITED]
    runs = {
        (bench.PRODUCE, "lz4", bench.NONE): [bench.Run(1.0, 10.0)] * 2,
        (bench.PRODUCE, "lz4", bench.AUDITED): [bench.Run(cost, 10.0) for cost in costs],
    }
    row = bench.row(bench.PRODUCE, "lz4", names, runs, records=100)
    assert row.measure == "Produce, lz4, 10 records a request: CPU us/record"
    assert row.cells[bench.AUDITED].endswith(cell)


def test_another_version_gets_columns_of_its_own() -> None:
    assert list(bench.columns(None)) == [bench.NONE, bench.AUDITED]
    assert list(bench.columns("/opt/kafka-sidecar"))[2:] == ["no auditing, before", "audited, before"]
