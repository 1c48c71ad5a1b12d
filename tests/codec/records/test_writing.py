"""Records are read as they were written, and unchanged ones keep their bytes."""

from __future__ import annotations

from random import Random

import pytest
from fuzz.batches import sample_batch, sample_records
from hypothesis import given
from hypothesis import strategies as some
from support.batches import rebuilt

from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.records import (
    KEEP,
    Batch,
    Change,
    Codec,
    Header,
    NewRecord,
    Record,
    batches,
    build_batch,
    build_commit_marker,
    build_single,
)

SEEDS = some.integers(0, 2**32)


def as_new(record: Record) -> NewRecord:
    return NewRecord(
        record.value, record.key, record.headers, record.timestamp_delta, record.offset_delta, record.attributes
    )


def only(data: bytes) -> Batch:
    (batch,) = batches(data)
    return batch


@given(seed=SEEDS, codec=some.sampled_from(Codec))
def test_records_read_back_as_they_were_written(seed: int, codec: Codec) -> None:
    records = sample_records(Random(seed))

    batch = only(build_batch(records, codec=codec))

    deltas = [index if record.offset_delta is None else record.offset_delta for index, record in enumerate(records)]
    found = [as_new(record) for record in batch.records()]
    assert [record.offset_delta for record in found] == deltas
    assert [(one.key, one.value, one.headers, one.timestamp_delta, one.attributes) for one in found] == [
        (one.key, one.value, one.headers, one.timestamp_delta, one.attributes) for one in records
    ]
    assert batch.header.last_offset_delta == max(deltas, default=-1)
    assert batch.header.codec == codec
    assert batch.crc_is_right()


@given(some.binary(max_size=400), some.none() | some.binary(max_size=9), some.sampled_from(Codec))
def test_a_batch_of_one_record_in_parts_is_the_batch_of_that_record(
    value: bytes, key: bytes | None, codec: Codec
) -> None:
    headers = (Header("h", b"v"), Header("n", None))
    whole = build_batch([NewRecord(value, key, headers)], codec=codec, base_timestamp=1_700_000_000_000)
    parts = build_single(memoryview(value), key, headers, 1_700_000_000_000, codec)
    if codec != Codec.GZIP:
        assert b"".join(parts) == whole
    assert only(b"".join(parts)).crc_is_right()
    assert next(iter(only(b"".join(parts)).records())).value == value


@given(seed=SEEDS)
def test_rewriting_all_fields_unchanged_changes_no_byte(seed: int) -> None:
    batch = only(sample_batch(Random(seed)))
    changes = {one.index: Change(one.key, one.value, one.headers) for one in batch.records()}

    again = only(rebuilt(batch, changes))

    assert again.records().payload == batch.records().payload
    assert again.header == batch.header
    assert bytes(again.data) == bytes(batch.data)


@given(seed=SEEDS, data=some.data())
def test_only_the_chosen_fields_of_the_chosen_records_change(seed: int, data: some.DataObject) -> None:
    batch = only(sample_batch(Random(seed)))
    before = [as_new(record) for record in batch.records()]
    new = Change(
        key=data.draw(some.sampled_from([KEEP, None, b"", b"new key" * 50])),
        value=data.draw(some.sampled_from([KEEP, None, b"", b"new value" * 50])),
        headers=data.draw(some.just(KEEP) | some.sampled_from([(), (Header("a", None), Header(b"\xff", b"x" * 100))])),
    )
    chosen = data.draw(some.sets(some.integers(0, len(before) - 1))) if before else set()

    after = only(rebuilt(batch, dict.fromkeys(chosen, new)))

    assert after.crc_is_right()
    kept = ("base_offset", "leader_epoch", "attributes", "last_offset_delta", "base_timestamp", "max_timestamp",
            "producer_id", "producer_epoch", "base_sequence", "count")  # fmt: skip
    assert [getattr(after.header, name) for name in kept] == [getattr(batch.header, name) for name in kept]
    for index, (old, record) in enumerate(zip(before, after.records(), strict=True)):
        change = new if index in chosen else Change()
        assert record.key == (old.key if change.key is KEEP else change.key)
        assert record.value == (old.value if change.value is KEEP else change.value)
        assert record.headers == (old.headers if change.headers is KEEP else change.headers)
        assert (record.timestamp_delta, record.attributes) == (old.timestamp_delta, old.attributes)
        assert record.offset_delta == old.offset_delta


def test_a_varint_longer_than_needed_is_kept_in_unchanged_records() -> None:
    odd = bytes.fromhex("908000" + "000000" + "01" + "808000" + "00")  # length and value's length in three bytes
    header = build_batch([NewRecord(b""), NewRecord(b"")])[:61]
    batch = only(header[:8] + (49 + 2 * len(odd)).to_bytes(4, "big") + header[12:] + odd + odd)

    after = only(rebuilt(batch, {1: Change(key=b"k")}))

    assert after.records().payload == odd + bytes.fromhex("12" + "000000" + "026b" + "808000" + "00")


def test_a_rebuild_without_changes_returns_the_same_bytes() -> None:
    data = build_batch([NewRecord(b"v")], codec=Codec.GZIP)

    assert rebuilt(only(data), {}) == data


def test_building_a_batch_with_an_unknown_codec_is_rejected() -> None:
    with pytest.raises(CodecError, match="codec 5"):
        build_batch([], codec=5)


# As it was tried with nine client libraries, none of which shows it or stands still there.
MARKER = bytes.fromhex(
    "00000000000003e8 00000042 00000003 02 e7b9cd44 0030 00000009 0000018bcfe56800 0000018bcfe56800"
    "ffffffffffffffff ffff ffffffff 00000001    20 00 00 12 08 00000001 0c 0000 00000000 00"
)


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("first", [990, 1000])
def test_a_commit_marker_covers_all_offsets_up_to_the_last_and_has_no_producer(codec: Codec, first: int) -> None:
    records = [NewRecord(b"v", offset_delta=1009 - first)]
    like = build_batch(
        records, codec=codec, base_offset=first, leader_epoch=3, base_timestamp=1_699_999_999_000,
        max_timestamp=1_700_000_000_000, producer_id=7, producer_epoch=1, base_sequence=5,
    )  # fmt: skip

    assert build_commit_marker(only(like), 1000, 1009) == MARKER
    assert len(MARKER) == 78
