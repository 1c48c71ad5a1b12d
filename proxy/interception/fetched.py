"""The records of one partition in a Fetch response after `on_consume`: batches changed, emptied or left alone.

What is dropped before visible records leaves a gap. A batch is never sent empty: some clients stand still there. Where
the records of an answer end with dropped ones, one COMMIT marker without a transaction carries the consumer over them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.messages.fetch import AbortedTransaction
from kafka_sidecar.codec.records import Batch, BatchTooLargeError, Records, batches, commit_marker, resealed
from kafka_sidecar.interceptors.consuming import Consumers
from kafka_sidecar.interceptors.contract import Context
from kafka_sidecar.proxy.interception.observed import Observed

API = "Fetch"
MAGIC = 2
ABORT = 0  # type of a control record; 1: COMMIT
CONTROL_KEY_SIZE = 4  # version int16, type int16


class TooLongError(Exception):
    """A batch holds more than may be inflated while others wait."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Who reads a partition, and how."""

    chain: Consumers
    context: Context
    topic: str
    partition: int
    observed: Observed
    limit: int  # bytes that a batch may have when it is decompressed
    final: bool  # whether a batch that has more passes as it is; otherwise TooLongError


@dataclass(frozen=True, slots=True)
class Left:
    """What is left of a partition's records."""

    records: bytes | memoryview | None  # None: nothing has changed
    hidden_from: int | None = None  # the first offset of those at the end that are all hidden
    following: int = 0  # the offset behind them


def consumed(
    reading: Reading, records: bytes | memoryview, aborted: Iterable[AbortedTransaction] | None, marker: bool
) -> Left:
    """What a consumer gets in place of ``records``.

    Args:
        aborted: for a consumer that reads only what is committed, the transactions that are not; None for others.
        marker: whether what is hidden at the end becomes a marker, or nothing.

    Raises:
        TooLongError: it must be done in a thread.
    """
    try:
        found = batches(records, may_end_early=True)
    except CodecError:
        reading.observed.left_alone(API, "unreadable", reading.topic)
        return Left(None)
    seen = list(_with_visibility(found, aborted))
    inflated = {} if reading.final else _inflated(reading, [batch for batch, visible in seen if visible])
    parts: list[bytes | memoryview] = []
    first_hidden: Batch | None = None
    changed = False
    for batch, visible in seen:
        if batch.magic != MAGIC:
            reading.observed.left_alone(API, "old_format", reading.topic)
        new = _consumed(reading, batch, inflated.get(id(batch))) if visible else batch.data
        changed = changed or new is not batch.data
        if new:
            parts.append(new)
            first_hidden = None
        else:
            first_hidden = first_hidden or batch
    if not changed:
        return Left(None)
    if first_hidden is None:
        return Left(b"".join(parts))
    last, base = found[-1], first_hidden.header.base_offset
    if marker:
        parts.append(commit_marker(last, base))
    return Left(b"".join(parts), base, last.header.base_offset + last.header.last_offset_delta + 1)


def _inflated(reading: Reading, found: list[Batch]) -> dict[int, Records]:
    """The records of all batches before any interceptor sees one: it must not see any twice."""
    inflated, room = {}, reading.limit
    for batch in found:
        try:
            inflated[id(batch)] = records = batch.records(max(room, 1))
        except BatchTooLargeError:
            raise TooLongError from None
        except CodecError:
            continue
        room -= len(records.payload)
    return inflated


def _consumed(reading: Reading, batch: Batch, records: Records | None) -> bytes | memoryview:
    """What is left of a batch; nothing where all its records are dropped."""
    observed = reading.observed
    try:
        records = records or batch.records(reading.limit)
    except BatchTooLargeError:
        observed.left_alone(API, "too_large", reading.topic)
        return batch.data
    except CodecError:
        observed.left_alone(API, "unreadable", reading.topic)
        return batch.data
    header = batch.header
    left = reading.chain.consume(reading.context, reading.topic, reading.partition, header, records)
    if left is records:
        observed.batches[API, "unchanged"] += 1
        return batch.data
    if not len(left):
        observed.batches[API, "dropped"] += 1
        return b""
    if not batch.crc_is_right():  # or a batch that was damaged on its way would look whole
        observed.left_alone(API, "unreadable", reading.topic)
        return batch.data
    observed.batches[API, "changed"] += 1
    return resealed(batch, left)


def _with_visibility(found: list[Batch], aborted: Iterable[AbortedTransaction] | None) -> Iterator[tuple[Batch, bool]]:
    """Each batch, and whether a consumer shows its records: as Kafka's CompletedFetch decides it."""
    pending = sorted(aborted or (), key=lambda one: one.first_offset, reverse=True)
    open_ones: set[int] = set()
    for batch in found:
        if batch.magic != MAGIC:
            yield batch, False
            continue
        header = batch.header
        last = header.base_offset + header.last_offset_delta
        while pending and pending[-1].first_offset <= last:
            open_ones.add(pending.pop().producer_id)
        if header.is_control:
            if header.producer_id in open_ones and _is_abort(batch):
                open_ones.discard(header.producer_id)
            yield batch, False
        else:
            yield batch, header.count > 0 and not (header.is_transactional and header.producer_id in open_ones)


def _is_abort(batch: Batch) -> bool:
    try:
        key = next(iter(batch.records())).key
    except (CodecError, StopIteration):
        return False
    return key is not None and len(key) >= CONTROL_KEY_SIZE and int.from_bytes(key[2:4], "big") == ABORT
