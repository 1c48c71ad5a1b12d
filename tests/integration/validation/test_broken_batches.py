"""Batches that Kafka refuses whatever is in them get the same error through the sidecar as from the broker alone."""

from __future__ import annotations

import gzip
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import cramjam
import lz4.frame
import pytest
import zstandard
from integration.validation.batches import batch, good, record, records, sized, varint
from integration.validation.guarded import Guarded
from integration.validation.wire import Answer, Wire

pytestmark = pytest.mark.integration

VERSION = 12  # the newest that names topics
VALUES = [b"a", b"b", b"c"]
UNKNOWN_SERVER_ERROR = -1
GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
CONTROL, TRANSACTIONAL = 0x20, 0x10
HOUR_MS = 3600_000


def with_byte(data: bytes, at: int, value: int) -> bytes:
    return data[:at] + bytes([value]) + data[at + 1 :]


def with_int32(data: bytes, at: int, value: int) -> bytes:
    return data[:at] + value.to_bytes(4, "big", signed=True) + data[at + 4 :]


def now() -> int:
    return int(time.time() * 1000)


@dataclass(frozen=True, slots=True)
class Case:
    """Bytes for one partition, and what is special about its topic."""

    name: str
    made: Callable[[], bytes]
    config: dict[str, str] = field(default_factory=dict, hash=False)

    def __str__(self) -> str:
        return self.name.replace(" ", "_")


def of(payload: bytes, count: int = 1, **fields: int) -> Callable[[], bytes]:
    return lambda: batch(payload, count, **fields)


R = record
RECENT = {"message_timestamp_before_max_ms": str(HOUR_MS), "message_timestamp_after_max_ms": str(HOUR_MS)}
COMPACTED = {"cleanup_policy": "compact"}
CASES = (
    Case("a good batch", lambda: good(VALUES)),
    Case("a good batch of gzip", of(gzip.compress(records(VALUES)), 3, attributes=GZIP)),
    Case("a checksum that is wrong", lambda: with_byte(good(VALUES), -1 % len(good(VALUES)), 1)),
    Case("more records announced than offsets", of(records(VALUES), 3, last_offset_delta=1)),
    Case("fewer records announced than there are", of(records(VALUES), 2)),
    Case("more records announced than there are", of(records(VALUES), 4)),
    Case("no records", of(b"", 0)),
    Case("a negative number of records", of(records(VALUES), -3)),
    Case("2 to the 31 records", of(records(VALUES), 2**31 - 1)),
    Case("a control batch", of(R(0, bytes(6), key=bytes(4)), attributes=CONTROL)),
    Case("a producer id without a sequence", of(R(0, b"v"), producer_id=5, producer_epoch=0)),
    Case("a transactional batch without a producer", of(R(0, b"v"), attributes=TRANSACTIONAL)),
    Case("a varint that does not end", of(b"\xff" * 12)),
    Case("a key length that does not end", of(sized(b"\0\0\0" + b"\xff" * 12))),
    Case("a time delta that does not end", of(sized(b"\0" + b"\xff" * 12))),
    Case("an offset delta that does not end", of(sized(b"\0\0" + b"\xff" * 12))),
    Case("a number of headers that does not end", of(sized(b"\0\0\0" + varint(-1) * 2 + b"\xff" * 12))),
    Case("a second record of which the length does not end", of(R(0, b"v") + b"\xff" * 12, 2)),
    Case("gzip with a varint that does not end", of(gzip.compress(b"\xff" * 12), attributes=GZIP)),
    Case("zstd with a varint that does not end", of(zstandard.compress(b"\xff" * 12), attributes=ZSTD)),
    Case("lz4 with a varint that does not end", of(lz4.frame.compress(b"\xff" * 12), attributes=LZ4)),
    Case("gzip with bytes after it", of(gzip.compress(records(VALUES)) + b"abc", 3, attributes=GZIP)),
    Case("zstd with bytes after it", of(zstandard.compress(records(VALUES)) + b"abc", 3, attributes=ZSTD)),
    Case("lz4 with linked blocks", of(lz4.frame.compress(records(VALUES), block_linked=True), 3, attributes=LZ4)),
    Case("raw snappy", of(bytes(cramjam.snappy.compress_raw(records(VALUES))), 3, attributes=SNAPPY)),
    Case("gzip with records after the last", of(gzip.compress(records(VALUES) + b"\0\0"), 3, attributes=GZIP)),
    Case("a record longer than the batch", of(varint(1000) + R(0, b"v")[1:])),
    Case("a record shorter than its fields", of(varint(5) + R(0, b"v")[1:])),
    Case("a key longer than the record", of(sized(b"\0\0\0" + varint(900) + b"k"))),
    Case("a key with a negative length", of(sized(b"\0\0\0" + varint(-7) + b"k" + varint(-1) + varint(0)))),
    Case("a value longer than the record", of(sized(b"\0\0\0" + varint(-1) + varint(2**31 - 1) + b"\0"))),
    Case("2 to the 31 headers", of(sized(b"\0\0\0" + varint(-1) + varint(-1) + varint(2**31 - 1)))),
    Case("a negative number of headers", of(sized(b"\0\0\0" + varint(-1) + varint(-1) + varint(-2)))),
    Case("a header whose key is null", of(sized(b"\0\0\0" + varint(-1) * 2 + varint(1) + varint(-1) * 2))),
    Case("a header that is cut off", of(sized(b"\0\0\0" + varint(-1) * 2 + varint(1) + varint(50) + b"h"))),
    Case("bytes after the last record", of(records(VALUES) + b"\0\0\0", 3)),
    Case("records out of order", of(R(1, b"a") + R(0, b"b"), 2)),
    Case("records with the same offset", of(R(0, b"a") + R(0, b"b"), 2)),
    Case("a null key where keys are needed", of(R(0, b"a") + R(1, b"b", key=None), 2), COMPACTED),
    Case("two batches", lambda: good(VALUES) * 2),
    Case("no batch", lambda: b""),
    Case("a batch that is cut off", lambda: good(VALUES)[:-3]),
    Case("a header that is cut off", lambda: good(VALUES)[:40]),
    Case("a length that is cut off", lambda: good(VALUES)[:9]),
    Case("a length past the end", lambda: with_int32(good(VALUES), 8, 2**30)),
    Case("a batch and the beginning of another", lambda: good(VALUES) + good(VALUES)[:50]),
    Case("a batch and three more bytes", lambda: good(VALUES) + b"abc"),
    Case("a negative length", lambda: with_int32(good(VALUES), 8, -1)),
    Case("a length of nothing", lambda: with_int32(good(VALUES), 8, 0)),
    Case("a length smaller than the header", lambda: with_int32(good(VALUES), 8, 40)),
    Case("magic 0", lambda: with_byte(good(VALUES), 16, 0)),
    Case("magic 1", lambda: with_byte(good(VALUES), 16, 1)),
    Case("magic 3", lambda: with_byte(good(VALUES), 16, 3)),
    Case("garbage as gzip", of(b"\xaa" * 50, attributes=GZIP)),
    Case("garbage as snappy", of(b"\xaa" * 50, attributes=SNAPPY)),
    Case("garbage as lz4", of(b"\xaa" * 50, attributes=LZ4)),
    Case("garbage as zstd", of(b"\xaa" * 50, attributes=ZSTD)),
    Case("nothing as gzip", of(b"", attributes=GZIP)),
    Case("nothing as snappy", of(b"", attributes=SNAPPY)),
    Case("nothing as lz4", of(b"", attributes=LZ4)),
    Case("gzip that ends early", of(gzip.compress(records(VALUES))[:-12], 3, attributes=GZIP)),
    Case("zstd that ends early", of(zstandard.compress(records(VALUES))[:-4], 3, attributes=ZSTD)),
    Case("lz4 that ends early", of(lz4.frame.compress(records(VALUES))[:-9], 3, attributes=LZ4)),
    Case("a codec that does not exist", of(records(VALUES), 3, attributes=5)),
    Case("more announced than gzip holds", of(gzip.compress(records(VALUES)), 4, attributes=GZIP)),
    Case("fewer announced than zstd holds", of(zstandard.compress(records(VALUES)), 2, attributes=ZSTD)),
    Case("snappy with a bad varint", of(bytes(cramjam.snappy.compress_raw(b"\xff" * 12)), attributes=SNAPPY)),
    Case("a time too long ago", lambda: good(VALUES, time_ms=now() - 2 * HOUR_MS), RECENT),
    Case("a time too far ahead", lambda: good(VALUES, time_ms=now() + 2 * HOUR_MS), RECENT),
    Case("one time too far ahead", lambda: batch(R(0, b"a") + R(1, b"b", timestamp_delta=9 * HOUR_MS), 2), RECENT),
)


def answered(bootstrap: str, topic: str, data: bytes) -> Answer | None:
    """None: the connection was closed."""
    try:
        with Wire(bootstrap) as wire:
            return wire.produce(VERSION, {topic: {0: data}})[topic, 0]
    except (EOFError, ConnectionError):
        return None


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_broken_batch_gets_the_code_that_the_broker_gives(guarded: Guarded, case: Case) -> None:
    slug = "".join(part[0] for part in case.name.split()) + str(CASES.index(case))
    topic = guarded.topic(f"header-broken-{slug}", partitions=1, **case.config)
    data = case.made()
    direct = answered(guarded.cluster.direct, topic, data)
    through = answered(guarded.sidecar.bootstrap, topic, data)
    assert (through and through.code) == (direct and direct.code)


STRICTER = (Case("lz4 with bytes after it", of(lz4.frame.compress(records(VALUES)) + b"abc", 3, attributes=LZ4)),)


@pytest.mark.parametrize("case", STRICTER, ids=str)
def test_bytes_after_the_records_that_a_broker_does_not_read_are_rejected(guarded: Guarded, case: Case) -> None:
    topic = guarded.topic(f"header-stricter-{case}")
    assert answered(guarded.cluster.direct, topic, case.made()) == Answer(0, 0)
    through = answered(guarded.sidecar.bootstrap, topic, case.made())
    assert through is not None
    assert through.code == UNKNOWN_SERVER_ERROR
