"""From a Produce response to what became of each batch. kio knows Kafka's errors."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from support.produce_requests import FIRST_WITH_IDS, VERSIONS, batch, stored, topic_id

from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.records import NewRecord, batches, build_batch
from kafka_sidecar.proxy.interception.acknowledgements import RETRIABLE, answers, records_in

# What no broker answers to a Produce: they are about controllers, fetch sessions, listeners, elections and shares.
NOT_OF_A_PRODUCE = {41, 70, 71, 72, 78, 80, 83, 84, 88, 106, 122, 123, 133}
FEWER = settings(max_examples=settings().max_examples // 2)
LIMIT = 100 << 20


def test_just_those_errors_are_retriable_that_are_so_for_kafka() -> None:
    assert {error.value for error in ErrorCode if error.retriable} - NOT_OF_A_PRODUCE == RETRIABLE


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_said_of_each_partition_is_found_by_the_name_or_id_of_its_topic(version: int) -> None:
    by_id = version >= FIRST_WITH_IDS
    said = answers(stored(version, {"a": {0: 5, 2: 7}, "b": {0: 9}}), version, by_id)
    a, b = (topic_id("a"), topic_id("b")) if by_id else ("a", "b")
    assert {place: one.base_offset for place, one in said.items()} == {(a, 0): 5, (a, 2): 7, (b, 0): 9}


@FEWER
@given(st.sampled_from(VERSIONS), st.binary(max_size=60))
def test_noise_raises_a_codec_error_or_says_something(version: int, noise: bytes) -> None:
    try:
        answers(noise, version, version >= FIRST_WITH_IDS)
    except CodecError:
        return


@pytest.mark.parametrize("codec", range(5))
@pytest.mark.parametrize("records", [1, 10, 20_000])
def test_a_header_is_believed_where_it_is_right_however_well_the_records_are_compressed(
    codec: int, records: int
) -> None:
    smallest = build_batch([NewRecord(None, offset_delta=0)] * records, codec=codec, last_offset_delta=records - 1)
    (found,) = batches(smallest)
    assert records_in(found, LIMIT) == records


@FEWER
@given(st.integers(-(2**31), 2**31 - 1), st.integers(0, 4))
def test_a_header_that_announces_more_than_there_can_be_is_not_believed(count: int, codec: int) -> None:
    whole = batch("a", codec=codec)
    (found,) = batches(whole[:57] + count.to_bytes(4, "big", signed=True) + whole[61:])
    assert 0 <= records_in(found, 1000) <= 1000 // 7
    assert records_in(found, 1000) <= max(count, 0)
