"""All records of a batch are validated in one call as `syntax` validates them one by one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_sidecar.codec.json.syntax import find_fault, find_not_json
from kafka_sidecar.codec.records import Codec, NewRecord, Records, batches, build_batch

DEPTH = 3
parts = (
    st.none() | st.binary(max_size=6) | st.sampled_from([b"{}", b'{"a":[1]}', b"[[[[]]]]", b"[1", b'"\xc3\xa9"', b"1 "])
)


def records_of(*new: NewRecord, codec: Codec = Codec.NONE) -> Records:
    (batch,) = batches(build_batch(new, codec=codec))
    return batch.records()


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_each_invalid_value_is_reported_with_record_index_reason_and_byte_position(codec: Codec) -> None:
    values = (b'{"a":1}', b"{a:1}", b"", None, b"[" * 9, b"1")
    records = records_of(*(NewRecord(value, key=b"no json") for value in values), codec=codec)
    assert find_not_json(records, False, DEPTH) == [
        (1, "unexpected character at byte 1"),
        (2, "empty at byte 0"),
        (3, None),
        (4, "deeper than 3 at byte 3"),
    ]


def test_keys_can_be_validated_instead_of_values() -> None:
    records = records_of(NewRecord(b"no", key=b"1"), NewRecord(b"1", key=b"no"), NewRecord(b"1"))
    assert find_not_json(records, True, DEPTH) == [(1, "expected true, false or null at byte 0"), (2, None)]


def test_a_truncated_value_is_not_completed_by_the_next_record() -> None:
    records = records_of(NewRecord(b"[1"), NewRecord(b"]"), NewRecord(b'"a'), NewRecord(b'"'))
    assert [index for index, _ in find_not_json(records, False, DEPTH)] == [0, 1, 2, 3]


@given(st.lists(st.builds(NewRecord, parts, key=parts), max_size=8), st.booleans())
def test_a_batch_is_validated_like_each_of_its_values_alone(new: list[NewRecord], of_key: bool) -> None:
    texts = [(record.key if of_key else record.value) for record in new]
    faults = [
        (index, None if text is None else find_fault(text, 0, len(text), DEPTH)) for index, text in enumerate(texts)
    ]
    expected = [(index, reason) for index, reason in faults if reason is not None or texts[index] is None]
    assert find_not_json(records_of(*new), of_key, DEPTH) == expected


def test_nulls_can_be_excluded_and_the_number_of_results_is_limited() -> None:
    records = records_of(NewRecord(None), NewRecord(b"1"), NewRecord(b"x"), NewRecord(None), NewRecord(b"y"))
    assert [index for index, _ in find_not_json(records, False, DEPTH)] == [0, 2, 3, 4]
    assert [index for index, _ in find_not_json(records, False, DEPTH, nulls=False)] == [2, 4]
    assert [index for index, _ in find_not_json(records, False, DEPTH, max_results=2)] == [0, 2]
    assert [index for index, _ in find_not_json(records, False, DEPTH, False, 1)] == [2]
