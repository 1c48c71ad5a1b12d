"""The records of a batch are a sequence; searches over all records agree with each record alone."""

from __future__ import annotations

from array import array
from random import Random

import pytest
from fuzz.batches import sample_records
from hypothesis import given
from hypothesis import strategies as some

from kafka_sidecar.codec.records import Header, NewRecord, Records, batches, build_batch


def records_of(*new: NewRecord) -> Records:
    return batches(build_batch(new))[0].records()


def test_records_are_a_sequence() -> None:
    records = records_of(*(NewRecord(b"%d" % number) for number in range(300)))

    assert len(records) == 300
    assert [record.value for record in records] == [b"%d" % number for number in range(300)]
    assert [record.index for record in records] == list(range(300))
    assert (records[0].value, records[299].value, records[-1].value, records[-300].index) == (b"0", b"299", b"299", 0)
    for index in (300, -301):
        with pytest.raises(IndexError):
            _ = records[index]
    assert list(records_of()) == []


def test_records_can_be_iterated_in_nested_loops() -> None:
    records = records_of(NewRecord(b"a"), NewRecord(b"b"))

    assert [(one.value, two.value) for one in records for two in records] == [
        (b"a", b"a"),
        (b"a", b"b"),
        (b"b", b"a"),
        (b"b", b"b"),
    ]


def test_the_first_limit_that_a_record_exceeds_is_reported() -> None:
    records = records_of(
        NewRecord(b"123", b"12"),
        NewRecord(b"123", b"123"),
        NewRecord(b"1234", b"123"),
        NewRecord(b"1", b"1", [Header("name", b"x" * 20)]),
        NewRecord(None),
    )

    assert records.larger_than(key=2, value=3, record=20) == [(1, "key"), (2, "key"), (3, "record")]
    assert records.larger_than(value=3) == [(2, "value")]
    assert records.larger_than(value=0) == [(0, "value"), (1, "value"), (2, "value"), (3, "value")]
    assert records.larger_than() == []


@given(seed=some.integers(0, 2**32), max_results=some.integers(1, 5))
def test_searches_stop_after_max_results(seed: int, max_results: int) -> None:
    records = records_of(*sample_records(Random(seed)))

    assert records.missing_header(b"trace", max_results) == records.missing_header(b"trace")[:max_results]
    assert records.null_keys(max_results) == records.null_keys()[:max_results]
    assert records.larger_than(value=0, max_results=max_results) == records.larger_than(value=0)[:max_results]


@given(seed=some.integers(0, 2**32))
def test_searches_agree_with_each_record_alone(seed: int) -> None:
    records = records_of(*sample_records(Random(seed)))

    for name in (b"trace", b"", b"x" * 70):
        assert records.missing_header(name) == [one.index for one in records if one.header(name) is None]
    assert records.null_keys() == [one.index for one in records if one.key is None]
    assert records.larger_than(key=63) == [(one.index, "key") for one in records if one.key_size > 63]
    assert records.larger_than(value=0) == [(one.index, "value") for one in records if one.value_size > 0]
    assert records.sizes() == (
        array("q", [one.key_size for one in records]),
        array("q", [one.value_size for one in records]),
    )


@pytest.mark.parametrize("attributes", [0, 0x08], ids=["create time", "log append time"])
@pytest.mark.parametrize("base", [-1, 0, 1_700_000_000_000, 2**63 - 1, -(2**63)])
def test_timestamps_are_those_of_each_record(base: int, attributes: int) -> None:
    new = [NewRecord(b"", timestamp_delta=delta) for delta in (0, 1, -1, 10**6, 2**63 - 1, -(2**63))]
    (batch,) = batches(build_batch(new, attributes=attributes, base_timestamp=base, max_timestamp=5))
    records = batch.records()

    assert records.timestamps() == array("q", [one.timestamp for one in records])
    assert len(records_of().timestamps()) == 0
