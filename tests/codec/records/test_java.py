"""Kafka's own classes and ours read the same in each other's batches."""

from __future__ import annotations

import json
from hashlib import sha256
from random import Random
from typing import Any

import pytest
from fuzz.batches import sample_batch
from golden.batches.make import FILE, made, read_by_java
from support.batches import rebuilt

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
    reseal,
    with_header,
    with_header_each,
    without_headers,
)

CASES = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]
MAX_SHOWN_BYTES = 100  # bytes; as in Kafka4BatchJudge.java
TIME = 1_700_000_000_000


def described(batch: Batch) -> dict[str, Any]:
    """What Kafka4BatchJudge.java prints about a batch."""
    found: dict[str, Any] = {"magic": batch.magic, "is_valid": batch.crc_is_right(), "size": len(batch.data)}
    if batch.magic < 2:
        return found
    header = batch.header
    names = ("base_offset", "leader_epoch", "codec", "max_timestamp", "producer_id", "producer_epoch", "base_sequence",
             "count", "is_transactional", "is_control", "has_log_append_time",
             "base_timestamp")  # fmt: skip
    found |= {name: getattr(header, name) for name in names}
    found["has_delete_horizon"] = bool(header.attributes & 0x40)  # KIP-534
    found["last_offset"] = header.base_offset + header.last_offset_delta
    found["records"] = [described_record(header.base_offset, record) for record in batch.records()]
    return found


def described_record(base_offset: int, record: Record) -> list[Any]:
    headers = [[header.key, shown(header.value)] for header in record.headers]
    offset = base_offset + record.offset_delta
    return [offset, record.timestamp, shown(record.key), shown(record.value), headers]


def shown(data: bytes | None) -> str | None:
    if data is None or len(data) <= MAX_SHOWN_BYTES:
        return None if data is None else data.hex()
    return f"{len(data)} bytes, SHA-256 {sha256(data).hexdigest()}"


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_we_read_the_same_from_javas_batches_as_java(case: dict[str, Any]) -> None:
    found = [described(batch) for batch in batches(bytes.fromhex(case["hex"]))]

    assert found == case["batches"]


UNCOMPRESSED = [case for case in CASES if case["batches"][0]["magic"] == 2 and not case["batches"][0]["codec"]]


@pytest.mark.parametrize("case", UNCOMPRESSED, ids=[case["name"] for case in UNCOMPRESSED])
def test_we_write_what_java_writes(case: dict[str, Any]) -> None:
    (batch,) = batches(bytes.fromhex(case["hex"]))
    header = batch.header
    records = [
        NewRecord(one.value, one.key, one.headers, one.timestamp_delta, one.offset_delta) for one in batch.records()
    ]

    again = build_batch(
        records, attributes=header.attributes, base_offset=header.base_offset, leader_epoch=header.leader_epoch,
        last_offset_delta=header.last_offset_delta, base_timestamp=header.base_timestamp,
        max_timestamp=header.max_timestamp, producer_id=header.producer_id, producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
    )  # fmt: skip

    assert again.hex() == case["hex"]


@pytest.mark.integration
def test_the_golden_batches_are_what_java_writes() -> None:
    assert made() == FILE.read_text(encoding="utf-8")


@pytest.mark.integration
def test_java_reads_the_same_from_our_batches_as_we_do() -> None:
    random = Random(4)
    headers = [Header("trace", b"1"), Header("null", None), Header("Bücher-Ω", bytes(300))]
    several = [NewRecord(b"%d" % number * 5000, b"key", headers, number) for number in range(30)]
    ours = [build_batch(several, codec=codec, base_timestamp=TIME) for codec in Codec]
    ours += [
        rebuilt(batch, {0: Change(headers=headers), 3: Change(value=None)})
        for case in CASES
        for batch in batches(bytes.fromhex(case["hex"]))
        if batch.magic == 2 and batch.header.count > 3
    ]
    ours += [edited(data) for data in ours]
    ours += [data for data in (sample_batch(random) for _ in range(200)) if _java_can_tell(data)]
    ours += [data[:22] + bytes((data[22] ^ 0x10,)) + data[23:] for data in ours[:1]]  # a wrong checksum

    lines = read_by_java(ours).splitlines()

    *described_by_java, rejected = map(json.loads, lines)
    assert described_by_java == [{"batches": [described(batch) for batch in batches(data)]} for data in ours[:-1]]
    assert "is_valid" not in rejected
    assert "error" in rejected


def edited(data: bytes) -> bytes:
    """The batch with a header removed from all its records, one added, and another in every second one."""
    (batch,) = batches(data)
    records = batch.records()
    records = without_headers(records, [b"trace"])
    records = with_header(records, "Bücher-Ω".encode(), None)
    values = [(KEEP, b"", None, b"x" * 9000)[index % 4] for index in range(len(records))]
    return reseal(batch, with_header_each(records, b"each", values))


def _java_can_tell(data: bytes) -> bool:
    """Java takes the names of headers for UTF-8 and wraps times; a batch without records has no base timestamp."""
    (batch,) = batches(data)
    records = list(batch.records())
    return bool(records) and all(
        b"\xff" not in header.key_bytes and abs(record.timestamp_delta) < 10**9
        for record in records
        for header in (Header("", None), *record.headers)
    )
