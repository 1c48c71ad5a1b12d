"""What is reported of each batch. kio knows Kafka's errors."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from support.produce_requests import batch

from kafka_sidecar.codec.records import NewRecord, batches, build_batch
from kafka_sidecar.proxy.features.interception.acknowledgements import RETRIABLE, count_records

# What no broker answers to a Produce: they are about controllers, fetch sessions, listeners, elections and shares.
NOT_OF_A_PRODUCE = {41, 70, 71, 72, 78, 80, 83, 84, 88, 106, 122, 123, 133}
FEWER = settings(max_examples=settings().max_examples // 2)
LIMIT = 100 << 20


def test_just_those_errors_are_retriable_that_are_so_for_kafka() -> None:
    assert {error.value for error in ErrorCode if error.retriable} - NOT_OF_A_PRODUCE == RETRIABLE


@pytest.mark.parametrize("codec", range(5))
@pytest.mark.parametrize("records", [1, 10, 20_000])
def test_a_header_is_believed_where_it_is_right_however_well_the_records_are_compressed(
    codec: int, records: int
) -> None:
    smallest = build_batch([NewRecord(None, offset_delta=0)] * records, codec=codec, last_offset_delta=records - 1)
    (found,) = batches(smallest)
    assert count_records(found, LIMIT) == records


@FEWER
@given(st.integers(-(2**31), 2**31 - 1), st.integers(0, 4))
def test_a_header_that_announces_more_than_there_can_be_is_not_believed(count: int, codec: int) -> None:
    whole = batch("a", codec=codec)
    (found,) = batches(whole[:57] + count.to_bytes(4, "big", signed=True) + whole[61:])
    assert 0 <= count_records(found, 1000) <= 1000 // 7
    assert count_records(found, 1000) <= max(count, 0)
