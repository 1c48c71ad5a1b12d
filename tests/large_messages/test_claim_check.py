"""Values that are replaced by references to objects."""

from __future__ import annotations

from crc32c import crc32c

from kafka_sidecar.codec.records import Header, NewRecord, Records, batches, build_batch
from kafka_sidecar.large_messages import object_reference
from kafka_sidecar.large_messages.object_reference import ObjectReference, claim, new_key

MINE = Header("mine", b"x")
KEY = new_key("orders", bytes(16))


def records(*new: NewRecord) -> Records:
    (batch,) = batches(build_batch(new))
    return batch.records()


def test_only_values_that_are_larger_are_replaced() -> None:
    found = claim(records(NewRecord(b"a" * 10), NewRecord(b"b" * 11, b"k", (MINE,)), NewRecord(None)), 10, lambda: KEY)
    assert found is not None
    assert found.objects == ((KEY, b"b" * 11),)
    small, large, null = found.records
    assert (small.value, null.value) == (b"a" * 10, None)
    assert (large.key, large.value) == (b"k", KEY.encode())
    mine, reference = large.headers
    assert (mine.key, reference.key_bytes) == ("mine", object_reference.KEY)
    assert ObjectReference.decode(reference.value, "orders") == ObjectReference(KEY, 11, crc32c(b"b" * 11))


def test_without_large_values_there_is_nothing_to_replace() -> None:
    assert claim(records(NewRecord(b"a", headers=(MINE,))), 10, lambda: KEY) is None


def test_a_value_that_is_stored_has_one_reference() -> None:
    """Others are refused before, unless the topic accepts them."""
    other = Header(object_reference.KEY, ObjectReference(f"orders/{'0' * 32}", 1, 2).encode())
    found = claim(records(NewRecord(b"b" * 11, headers=(other, MINE))), 10, lambda: KEY)
    assert found is not None
    (record,) = found.records
    assert [header.key for header in record.headers] == ["mine", "_lmo"]
    assert ObjectReference.decode(record.headers[-1].value, "orders").key == KEY
