"""`make bench-audit`: every record of its workloads is counted."""

from __future__ import annotations

import audit_counts as bench
import pytest
from rig import frames
from rig.driver import Workload
from support.auditing import Audited

pytestmark = pytest.mark.program


@pytest.mark.parametrize("load", bench.workloads(), ids=[load.title for load in bench.workloads()])
def test_every_record_of_a_workload_is_counted(load: Workload) -> None:
    found = Audited(bucket_ms=600_000)
    found.dialogue.topics.remember([(frames.TOPIC_ID, "bench")])
    found.dialogue.client(load.request().one(7))
    if load.fetch_records:
        found.dialogue.broker(frames.response(frames.fetch_response(0, load.fetch_records)).one(7))
        assert sum(call[4] for call in found.calls.delivered_) == load.records
    else:
        found.dialogue.broker(frames.response(frames.produce_response(len(load.batches))).one(7))
        assert sum(call[3] for call in found.calls.produced_) == load.records
    assert not found.counting.stats.uncounted
