"""Batches that brokers reject for their header or encoding. tests/integration compares the codes with a broker's."""

from __future__ import annotations

from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from support.produce_requests import GOOD, batch

from kafka_sidecar.codec.apis import ErrorCode
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.records import BATCH_HEADER_SIZE, Batch, Codec, DecompressionError, batches
from kafka_sidecar.codec.records.log_validator import InvalidBatch, cut_single_batch, explain_unreadable, find_fault

CONTROL, TRANSACTIONAL = 0x20, 0x10


def only(data: bytes) -> Batch:
    (found,) = batches(data)
    return found


def written_by_aiokafka(codec: int, **about: Any) -> bytes:
    given = {"producer_id": -1, "producer_epoch": -1, "base_sequence": -1, "is_transactional": 0} | about
    builder = DefaultRecordBatchBuilder(2, codec, batch_size=1 << 20, **given)
    for number in range(3):
        builder.append(number, 1000, b"key", b"value %d" % number, [("h", b"1")])
    return bytes(builder.build())


@pytest.mark.parametrize("codec", range(5))
def test_batches_of_another_client_are_valid(codec: int) -> None:
    for about in ({}, {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0, "is_transactional": 1}):
        found = cut_single_batch(written_by_aiokafka(codec, **about))
        assert isinstance(found, Batch)
        assert find_fault(found) is None
        assert [record.value for record in found.records()] == [b"value 0", b"value 1", b"value 2"]


FAULTS = {
    "checksum": (GOOD[:-1] + b"?", ErrorCode.CORRUPT_MESSAGE, "checksum"),
    "fewer offsets": (batch("a", "b", last_offset_delta=0), ErrorCode.INVALID_RECORD, "2 records announced, 1 offsets"),
    "more offsets": (batch("a", last_offset_delta=4), ErrorCode.INVALID_RECORD, "1 records announced, 5 offsets"),
    "no records": (batch(), ErrorCode.INVALID_RECORD, "0 records announced"),
    "control": (batch("a", attributes=CONTROL), ErrorCode.INVALID_RECORD, "control"),
    "no sequence": (batch("a", producer_id=3, producer_epoch=0), ErrorCode.INVALID_RECORD, "sequence"),
    "no sequence of the first producer id": (
        batch("a", producer_id=0, producer_epoch=0),
        ErrorCode.INVALID_RECORD,
        "sequence",
    ),
}


@pytest.mark.parametrize("kind", FAULTS)
def test_an_invalid_batch_header_is_rejected_with_the_reason(kind: str) -> None:
    data, code, words = FAULTS[kind]
    fault = find_fault(only(data))
    assert fault is not None
    assert fault.error_code == code
    assert words in fault.message


@pytest.mark.parametrize("good", [GOOD, batch("a", attributes=TRANSACTIONAL, producer_id=3, base_sequence=0)])
def test_a_valid_batch_has_no_fault(good: bytes) -> None:
    assert find_fault(only(good)) is None


@pytest.mark.parametrize("none", [None, b"", b"short", GOOD[:-1], GOOD + GOOD, GOOD[:16] + b"\7" + GOOD[17:]])
def test_bytes_that_are_not_exactly_one_batch_are_rejected(none: bytes | None) -> None:
    assert isinstance(cut_single_batch(none), InvalidBatch)


def with_payload(payload: bytes, codec: int = Codec.NONE) -> Batch:
    """A batch with these bytes in place of its records."""
    data = bytearray(GOOD[:BATCH_HEADER_SIZE] + payload)
    data[8:12] = (len(data) - 12).to_bytes(4, "big")  # batchLength counts what follows it
    data[22] |= codec
    return only(bytes(data))


RECORD = GOOD[BATCH_HEADER_SIZE:]
ENDLESS = b"\xff" * 5
# What brokers do not foresee they call a failure of their own: tests/integration compares the codes.
UNREADABLE = {
    "an endless length": (with_payload(ENDLESS + b"\1"), ErrorCode.UNKNOWN_SERVER_ERROR),
    "an endless length after a record": (with_payload(RECORD + ENDLESS), ErrorCode.UNKNOWN_SERVER_ERROR),
    "an endless length in what is compressed": (with_payload(ENDLESS, Codec.GZIP), ErrorCode.INVALID_RECORD),
    "a negative length": (with_payload(b"\1"), ErrorCode.INVALID_RECORD),
    "half a length": (with_payload(RECORD + b"\xff\xff"), ErrorCode.INVALID_RECORD),
    "more than there is": (with_payload(b"\x7e\0"), ErrorCode.INVALID_RECORD),
}


@pytest.mark.parametrize("kind", UNREADABLE)
def test_unreadable_records_get_the_error_code_of_the_broker(kind: str) -> None:
    batch, code = UNREADABLE[kind]
    found = explain_unreadable(batch, CodecError("not this"))
    assert (found.error_code, found.message) == (code, "the records cannot be read: not this")


def test_records_that_cannot_be_decompressed_get_unknown_server_error() -> None:
    found = explain_unreadable(with_payload(b"", Codec.GZIP), DecompressionError("not gzip"))
    assert found.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
