"""Dead letters as a sidecar writes them, for tests that need no rejection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kafka_sidecar.codec.records import Header, Record, batches, build_batch
from kafka_sidecar.codec.records.writing import NewRecord
from kafka_sidecar.dead_letters.letter import Reasons

AT = 1_790_000_000_000  # ms since 1970
REASONS = Reasons(
    "orders", 0, "json: Topic orders requires record values to be JSON: ends too early at byte 26", "json", "not_json",
    "enforce", "r-1", 0, AT, client_id="shop", principal="User:shop", producer_id=7, producer_epoch=0, sequence=3,
)  # fmt: skip
Pair = tuple[str | bytes, bytes | None]


def letter_headers(reasons: Reasons = REASONS, own: Sequence[Pair] = ()) -> list[Header]:
    """All headers of a letter whose record had its ``own`` ones."""
    return [*(Header(key, value) for key, value in own), *reasons.headers(len(own))]


def record_of(value: bytes | None, headers: Sequence[Header], key: bytes | None = None, timestamp: int = AT) -> Record:
    """A record as it is read from a log."""
    (batch,) = batches(build_batch([NewRecord(value, key, headers)], base_timestamp=timestamp))
    return batch.records()[0]


def letter_record(value: bytes | None = b"{", own: Sequence[Pair] = (), **changed: object) -> Record:
    """A dead letter, with other reasons where they are named."""
    reasons = replace(REASONS, **changed)  # type: ignore[arg-type]
    return record_of(value, letter_headers(reasons, own), b"k")
