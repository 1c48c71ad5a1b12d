"""The record code of two Python clients and ours read the same in each other's batches."""

from __future__ import annotations

import warnings
from random import Random
from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AiokafkaBuilder
from aiokafka.record.memory_records import MemoryRecords as AiokafkaRecords
from fuzz.batches import sample_records

from kafka_sidecar.codec.records import Codec, NewRecord, Record, batches, build_batch

with warnings.catch_warnings():  # kafka-python reads its resources in a deprecated way
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder
    from kafka.record.memory_records import MemoryRecords as KafkaPythonRecords

TIME = 1_700_000_000_000
LOG_APPEND_TIME, TRANSACTIONAL = 0x08, 0x10
READERS = {"aiokafka": AiokafkaRecords, "kafka-python": KafkaPythonRecords}
BUILDERS = {"aiokafka": AiokafkaBuilder, "kafka-python": KafkaPythonBuilder}
Seen = tuple[int, int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]


def tame_records() -> list[NewRecord]:
    """Random records that these clients can write: UTF-8 header keys, offsets in order, timestamps near one another."""
    random = Random(7)
    return [
        NewRecord(
            record.value,
            record.key,
            tuple(header for header in record.headers if b"\xff" not in header.key_bytes),
            timestamp_delta=random.randrange(-1000, 1000),
        )
        for _ in range(10)
        for record in sample_records(random)
    ]


def as_seen(base_offset: int, record: Record) -> Seen:
    headers = [(header.key, header.value) for header in record.headers]
    return base_offset + record.offset_delta, record.timestamp, record.key, record.value, headers


def as_seen_by_client(record: Any) -> Seen:
    return record.offset, record.timestamp, record.key, record.value, list(record.headers)


@pytest.mark.parametrize("attributes", [0, TRANSACTIONAL, LOG_APPEND_TIME])
@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("client", READERS)
def test_clients_read_the_same_from_our_batches_as_we_do(client: str, codec: Codec, attributes: int) -> None:
    data = build_batch(
        tame_records(), codec=codec, attributes=attributes, base_offset=40, base_timestamp=TIME,
        max_timestamp=TIME + 10**6, producer_id=4242, producer_epoch=7, base_sequence=5,
    )  # fmt: skip
    (batch,) = batches(data)

    theirs = READERS[client](data).next_batch()

    assert theirs.validate_crc()
    assert (theirs.producer_id, theirs.producer_epoch, theirs.base_sequence) == (4242, 7, 5)
    assert theirs.is_transactional == batch.header.is_transactional
    assert [as_seen_by_client(record) for record in theirs] == [as_seen(40, record) for record in batch.records()]


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("client", BUILDERS)
def test_batches_of_clients_are_read_as_written(client: str, codec: Codec) -> None:
    builder = BUILDERS[client](
        magic=2, compression_type=codec, is_transactional=1, producer_id=4242, producer_epoch=7, base_sequence=5,
        batch_size=1 << 24,
    )  # fmt: skip
    records = tame_records()
    for offset, record in enumerate(records):
        headers = [(header.key, header.value) for header in record.headers]
        builder.append(offset, TIME + record.timestamp_delta, record.key, record.value, headers)

    (batch,) = batches(bytes(builder.build()))

    assert batch.crc_is_right()
    header = batch.header
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (4242, 7, 5)
    assert header.is_transactional
    assert [as_seen(0, record) for record in batch.records()] == [
        (offset, TIME + one.timestamp_delta, one.key, one.value, [(header.key, header.value) for header in one.headers])
        for offset, one in enumerate(records)
    ]
