"""Batches as a producer sends them, and as a broker stores them: the records of many tests, valid ones and others."""

from __future__ import annotations

import random
import struct
from base64 import urlsafe_b64decode
from collections.abc import Iterable, Sequence
from pathlib import Path

from crc32c import crc32c
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from support.jws import SigningKey

from kafka_sidecar.codec.batch_layout import ATTRIBUTES_AT, CRC_AT, LOG_APPEND_TIME
from kafka_sidecar.codec.records import Header, NewRecord, build_batch

SENT_AT = 1_760_000_000_000  # ms
APPENDED_AT = SENT_AT + 5000
HOUR = 3_600_000
MAX_TIMESTAMP_AT = 35
USUAL = b'{"items": [1, 2]}'
VALUES = (
    b"{}",
    USUAL,
    b'{"items": [1, 2, 3, 4]}',
    b"{broken",
    b"",
    None,
    b"[" * 200,
    b'"\xff"',
    b"x" * 3000,
    b"bug",
    b"ask a",
    b"ask unavailable",
)
# Of RFC 8037, appendix A; its public half is in replay/keys.json.
PRIVATE = urlsafe_b64decode("nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A=")
SIGNATURE = SigningKey(algorithm="EdDSA", private=Ed25519PrivateKey.from_private_bytes(PRIVATE)).sign(USUAL)
KEYS = (None, b"", b"order-1", b"order-22", b"invoice 7", b"k" * 300)
HEADERS: tuple[tuple[Header, ...], ...] = (
    (),
    (Header("trace-id", b"1"),),
    (Header("trace-id", None), Header("source", b"web")),
    (Header("source", b"unknown"), Header("other", b"y" * 600)),
    tuple(Header(f"h{number}", b"") for number in range(12)),
    (Header("kroxylicious.io/jws", SIGNATURE),),  # right for the usual value alone
    (Header("kroxylicious.io/jws", SIGNATURE[:-1]),),
)
TIMES = (0, 1, HOUR, 2 * HOUR, -3 * HOUR, -SENT_AT - 1)  # relative to SENT_AT; the last one is "none"


def sent_batches(records: int, seed: int = 7) -> list[bytes]:
    """Batches of all codecs with ``records`` in all; one record in five has something unusual."""
    chance = random.Random(seed)
    found = []
    while records:
        count = min(records, chance.choice((1, 3, 20, 60)))
        usual = chance.random() < 0.3
        new = [_record(chance, usual) for _ in range(count)]
        found.append(build_batch(new, codec=chance.randrange(5), base_timestamp=SENT_AT))
        records -= count
    return found


def _record(chance: random.Random, usual: bool) -> NewRecord:
    def some(values: Sequence[object], common: int) -> object:
        return values[common] if usual or chance.random() < 0.8 else chance.choice(values)

    headers: object = some(HEADERS, 1)
    assert isinstance(headers, tuple)
    return NewRecord(some(VALUES, 1), some(KEYS, 2), headers, some(TIMES, 0))  # type: ignore[arg-type]


def stored(sent: Iterable[bytes], first: int = 0, append_time: int | None = APPENDED_AT) -> list[bytes]:
    """The batches as in a broker's log: with offsets, and with its time where the topic has LogAppendTime."""
    found = []
    for one in sent:
        batch = bytearray(one)
        struct.pack_into(">q", batch, 0, first)
        if append_time is not None:
            batch[ATTRIBUTES_AT + 1] |= LOG_APPEND_TIME
            struct.pack_into(">q", batch, MAX_TIMESTAMP_AT, append_time)
            struct.pack_into(">I", batch, CRC_AT, crc32c(bytes(batch[ATTRIBUTES_AT:])))
        first += struct.unpack_from(">i", batch, 57)[0]
        found.append(bytes(batch))
    return found


def write_log(folder: Path, topic: str, partition: int, log: Sequence[bytes], per_file: int = 100) -> None:
    """Segment files as a broker names them."""
    place = folder / f"{topic}-{partition}"
    place.mkdir(parents=True)
    for at in range(0, len(log), per_file):
        first = struct.unpack_from(">q", log[at], 0)[0]
        (place / f"{first:020}.log").write_bytes(b"".join(log[at : at + per_file]))
