"""Any bytes are the declared number of records with valid lengths, or a CodecError."""

from __future__ import annotations

from random import Random

import pytest
from fuzz.batches import ask_everything, ask_record, sample_batch, spoilt
from hypothesis import given
from hypothesis import strategies as some

from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.records import Header, NewRecord, Records, batches, build_batch

SEEDS = some.integers(0, 2**32)
BATCH = build_batch([NewRecord(b"value", b"key", [Header("name", b"x"), Header("null", None)]), NewRecord(None)])
PAYLOAD = BATCH[61:]

# What follows a record's length, field by field; each test puts something else in the place of one.
GOOD = {
    "attributes": "00",
    "timestamp_delta": "02",
    "offset_delta": "00",
    "key": "026b",
    "value": "0276",
    "headers": "00",
}


def record(**changed: str) -> bytes:
    body = bytes.fromhex("".join((GOOD | changed)[field] for field in GOOD))
    length = bytes.fromhex(changed["length"]) if "length" in changed else bytes((2 * len(body),))
    return length + body


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"length": "0f"}, "length is not that of its fields"),  # -8
        ({"length": "0e"}, "length is not that of its fields"),
        ({"length": "12"}, "length is not that of its fields"),
        ({"length": "feffffff0f"}, "length is not that of its fields"),
        ({"length": "8080808010"}, "length is not that of its fields"),
        ({"timestamp_delta": "ff" * 9 + "02"}, "64 bits"),
        ({"timestamp_delta": "80" * 10 + "00"}, "64 bits"),
        ({"offset_delta": "8080808010"}, "32 bits"),
        ({"offset_delta": "808080808000"}, "32 bits"),
        ({"key": "03"}, "invalid length of its key or value"),  # -2
        ({"value": "ffffffff0f"}, "invalid length of its key or value"),
        ({"value": "feffffff0f"}, "end inside"),
        ({"value": "808080808001"}, "invalid length of its key or value"),
        ({"headers": "01"}, "invalid number of headers"),
        ({"headers": "feffffff0f"}, "end inside"),  # 2^31 - 1 headers
        ({"headers": "020100"}, "invalid length of the key of a header"),
        ({"headers": "020003"}, "invalid length of the value of a header"),
        ({"headers": "0200"}, "end inside"),
    ],
    ids=str,
)
def test_an_invalid_length_in_a_record_is_rejected(changed: dict[str, str], why: str) -> None:
    with pytest.raises(CodecError, match=why):
        Records(record(**changed), 1)


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"timestamp_delta": "ffffffffffffffffff01"},
        {"offset_delta": "ffffffff0f"},
        {"key": "01", "value": "01"},
        {"key": "8100"},  # null in two bytes: a varint need not be short
        {"headers": "020001"},
    ],
    ids=str,
)
def test_a_record_with_extreme_but_valid_values_is_read(changed: dict[str, str]) -> None:
    (one,) = Records(record(**changed), 1)

    ask_record(one)


@pytest.mark.parametrize("count", [-(2**31), -1, 0, 1, 3, 2**31 - 1])
def test_a_record_count_that_does_not_match_the_records_is_rejected(count: int) -> None:
    with pytest.raises(CodecError):
        Records(PAYLOAD, count)


def test_a_batch_of_no_records_must_have_no_payload() -> None:
    assert list(Records(b"", 0)) == []
    with pytest.raises(CodecError):
        Records(b"\0", 0)


@pytest.mark.parametrize("size", range(len(PAYLOAD)))
def test_records_truncated_at_any_byte_are_rejected(size: int) -> None:
    with pytest.raises(CodecError):
        Records(PAYLOAD[:size], 2)


@given(data=some.binary(max_size=60), count=some.integers(0, 4))
def test_random_bytes_are_read_as_records_or_rejected(data: bytes, count: int) -> None:
    try:
        records = Records(data, count)
    except CodecError:
        return
    found = list(records)
    assert len(found) == count
    for one in found:
        ask_record(one)


@given(seed=SEEDS)
def test_all_fields_of_a_valid_batch_can_be_read(seed: int) -> None:
    data = sample_batch(Random(seed))
    (batch,) = batches(data)

    assert batch.crc_is_right()
    assert len(list(batch.records())) == batch.header.count


@given(seed=SEEDS)
def test_a_corrupt_batch_is_read_or_rejected(seed: int) -> None:
    random = Random(seed)
    batch = sample_batch(random)
    for _ in range(5):
        try:
            ask_everything(spoilt(random, batch))
        except CodecError:
            continue


@given(seed=SEEDS, data=some.data())
def test_a_batch_truncated_at_any_byte_is_rejected(seed: int, data: some.DataObject) -> None:
    batch = sample_batch(Random(seed))
    size = data.draw(some.integers(1, len(batch) - 1))

    with pytest.raises(CodecError):
        batches(batch[:size])
