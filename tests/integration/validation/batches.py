"""Record batches made by hand, right ones and such as no client makes; shares nothing with the codec but CRC-32C."""

from __future__ import annotations

import struct
import time
from collections.abc import Sequence

from crc32c import crc32c

HEADER = struct.Struct(">qiibIhiqqqhii")
CHECKED_FROM = 21  # the attributes
GOOD, BAD = (("h", b"1"),), ()  # headers of a record where "h" is required
Headers = Sequence[tuple[str, bytes | None]]


def varint(value: int) -> bytes:
    """Zigzag coded, as all numbers in a record are."""
    raw, out = value << 1 if value >= 0 else -value * 2 - 1, bytearray()
    while raw > 127:
        out.append(raw & 127 | 128)
        raw >>= 7
    return bytes([*out, raw])


def sized(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def record(
    delta: int, value: bytes | None, headers: Headers = GOOD, key: bytes | None = b"k", timestamp_delta: int = 0
) -> bytes:
    parts = [b"\0", varint(timestamp_delta), varint(delta), sized(key), sized(value), varint(len(headers))]
    for name, content in headers:
        parts += (sized(name.encode()), sized(content))
    return sized(b"".join(parts))


def records(values: Sequence[bytes], *, bad: Sequence[int] = (), key: bytes | None = b"k") -> bytes:
    """Those at the places ``bad`` lack the header."""
    return b"".join(record(at, value, BAD if at in bad else GOOD, key) for at, value in enumerate(values))


def batch(
    payload: bytes, count: int, *, attributes: int = 0, last_offset_delta: int | None = None,
    time_ms: int | None = None, max_time_ms: int | None = None, producer_id: int = -1, producer_epoch: int = -1,
    base_sequence: int = -1, magic: int = 2,
) -> bytes:  # fmt: skip
    """``payload`` unchanged, compressed or not, after a header with the right checksum and length."""
    last = count - 1 if last_offset_delta is None else last_offset_delta
    now = int(time.time() * 1000) if time_ms is None else time_ms
    latest = now if max_time_ms is None else max_time_ms
    header = (attributes, last, now, latest, producer_id, producer_epoch, base_sequence, count)
    checked = HEADER.pack(0, 0, 0, 0, 0, *header)[CHECKED_FROM:] + payload
    return struct.pack(">qiibI", 0, len(checked) + 9, -1, magic, crc32c(checked)) + checked


def good(values: Sequence[bytes], **fields: int) -> bytes:
    return batch(records(values), len(values), **fields)


def partly_bad(values: Sequence[bytes], bad: Sequence[int], **fields: int) -> bytes:
    return batch(records(values, bad=bad), len(values), **fields)
