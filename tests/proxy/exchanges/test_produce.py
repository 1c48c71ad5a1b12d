"""The records of a partition as policies and interceptors see them."""

from __future__ import annotations

import pytest
from support.produce_requests import produce_request

from kafka_sidecar.codec.envelope import open_request
from kafka_sidecar.codec.records import Batch, NewRecord, build_batch
from kafka_sidecar.codec.records.log_validator import cut_single_batch
from kafka_sidecar.codec.scan import scan_produce
from kafka_sidecar.proxy.exchanges.produce import PartitionRecords

TIME, LATER = 1_700_000_000_000, 1_800_000_000_000
LIMIT = 1 << 20


@pytest.mark.parametrize("flags", range(0, 0x100, 8))
def test_timestamps_are_those_that_consumers_will_read_whatever_attribute_bits_are_set(flags: int) -> None:
    """tests/integration/interception/test_timestamps.py compares them with a consumer's."""
    new = [NewRecord(b"a"), NewRecord(b"b", timestamp_delta=5)]
    sent = build_batch(new, base_timestamp=TIME, max_timestamp=LATER, attributes=flags)
    frame = produce_request(12, {"orders": {0: sent}})
    (topic,) = scan_produce(frame, open_request(frame).body_at, 12).topics
    (span,) = topic.partitions
    batch = cut_single_batch(frame[span.records_start : span.records_end])
    assert isinstance(batch, Batch)

    records = PartitionRecords("orders", span, batch, None).records(LIMIT)

    assert [record.timestamp for record in records] == [TIME, TIME + 5]
