"""Batches that brokers refuse whatever is in them. tests/integration compares the codes with a broker's."""

from __future__ import annotations

from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from support.produce_requests import GOOD, batch

from kafka_sidecar.codec.apis import ErrorCode
from kafka_sidecar.codec.records import Batch, batches
from kafka_sidecar.codec.records.log_validator import InvalidBatch, cut_single_batch, find_fault

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
def test_what_another_client_writes_is_a_batch_without_fault(codec: int) -> None:
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
}


@pytest.mark.parametrize("kind", FAULTS)
def test_what_is_wrong_with_a_header_is_named(kind: str) -> None:
    data, code, words = FAULTS[kind]
    fault = find_fault(only(data))
    assert fault is not None
    assert fault.error_code == code
    assert words in fault.message


@pytest.mark.parametrize("good", [GOOD, batch("a", attributes=TRANSACTIONAL, producer_id=3, base_sequence=0)])
def test_a_batch_without_fault_has_none(good: bytes) -> None:
    assert find_fault(only(good)) is None


@pytest.mark.parametrize("none", [None, b"", b"short", GOOD[:-1], GOOD + GOOD, GOOD[:16] + b"\7" + GOOD[17:]])
def test_what_is_not_one_batch_is_refused(none: bytes | None) -> None:
    assert isinstance(cut_single_batch(none), InvalidBatch)
