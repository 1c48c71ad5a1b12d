"""Random record batches, valid ones and ones that are spoilt where it hurts, and all that can be asked of a batch."""

from __future__ import annotations

from random import Random

from crc32c import crc32c

from fuzz.mutations import mutated
from kafka_sidecar.codec.records import (
    Change,
    Codec,
    Header,
    NewRecord,
    Record,
    batches,
    build_batch,
    edit_records,
    reseal,
)

LIMIT = 1 << 14  # bytes that a spoilt batch may inflate to: records become objects ten times their size
HEADER_SIZE, CODEC_AT = 61, 22
_NAMES = (b"", b"trace", b"x" * 70, "Bücher-Ω".encode(), b"\xff\xfe")
_SIZES = (0, 1, 5, 63, 64, 100, 300)


def sample_records(random: Random) -> list[NewRecord]:
    return [_record(random, index) for index in range(random.choice((0, 1, 2, 5, 20)))]


def _record(random: Random, index: int) -> NewRecord:
    headers = tuple(Header(random.choice(_NAMES), _bytes(random)) for _ in range(random.choice((0, 0, 1, 3, 70))))
    return NewRecord(
        value=_bytes(random),
        key=_bytes(random),
        headers=headers,
        timestamp_delta=random.choice((0, 1, -1, 10**6, -(2**63), 2**63 - 1)),
        offset_delta=random.choice((None, None, index * 1000, 2**31 - 1)),
        attributes=random.choice((0, 255)),
    )


def _bytes(random: Random) -> bytes | None:
    return None if random.random() < 0.2 else random.randbytes(random.choice(_SIZES))


def sample_batch(random: Random) -> bytes:
    return build_batch(
        sample_records(random),
        codec=random.choice(list(Codec)),
        attributes=random.choice((0, 0, 0x08, 0x10, 0x30, 0x40)),
        base_offset=random.choice((0, 2**40)),
        base_timestamp=random.choice((-1, 0, 1_700_000_000_000)),
        max_timestamp=random.choice((-1, 1_700_000_000_999)),
        producer_id=random.choice((-1, 4242)),
    )


def spoilt(random: Random, batch: bytes) -> bytes:
    """The batch with its header, its compressed bytes or the bytes in those wrong; length and checksum mostly right."""
    header, inside = batch[:HEADER_SIZE], batch[HEADER_SIZE:]
    match random.randrange(4):
        case 0:
            return mutated(random, batch, batch)
        case 1:
            inside = mutated(random, inside, inside)
        case 2:
            header = header[:12] + mutated(random, header[12:], header)[: HEADER_SIZE - 12].ljust(49, b"\0")
        case _:
            (one,) = batches(batch)
            header = header[:CODEC_AT] + bytes((header[CODEC_AT] & ~7,)) + header[CODEC_AT + 1 :]
            inside = mutated(random, one.records().payload, inside)
    data = bytearray(header + inside)
    data[8:12] = (len(data) - 12).to_bytes(4, "big")
    data[17:21] = crc32c(data[21:]).to_bytes(4, "big")
    return bytes(data)


def ask_everything(data: bytes, at: int = 0) -> int:
    """Whatever can be asked of a records field; how many records there were. Raises CodecError, and nothing else."""
    found = 0
    for batch in batches(data[at:], may_end_early=True):
        assert batch.crc_is_right() in (True, False)
        if batch.magic < 2:
            continue
        records = batch.records(LIMIT)
        found += len(records)
        for record in records:
            ask_record(record)
        for indexes in (records.null_keys(), records.missing_header(b"trace"), records.larger_than(1, 1, 1)):
            assert len(indexes) <= len(records)
        if records:
            same = edit_records(records, [(records[-1], Change(headers=records[-1].headers))])
            assert len(batches(reseal(batch, same))[0].records(2 * LIMIT)) == len(records)
    return found


def ask_record(record: Record) -> None:
    assert (record.key is None) == (record.key_size < 0)
    assert (record.value is None) == (record.value_size < 0)
    assert record.key_prefix(3) == (None if record.key is None else record.key[:3])
    assert record.value_prefix(-1) == record.value
    for header in record.headers:
        last = record.header(header.key)
        assert last is not None
        assert last.key_bytes == header.key_bytes
    assert -(2**63) <= record.timestamp < 2**63
    assert 0 <= record.attributes < 256
    assert -(2**31) <= record.offset_delta < 2**31
