"""The records of one partition in a Fetch response after `on_consume`: batches changed, emptied or left alone.

What is dropped before visible records leaves a gap. A batch is never sent empty: some clients stand still there. Where
the records of an answer end with dropped ones, one COMMIT marker without a transaction carries the consumer over them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.messages.fetch import AbortedTransaction
from kafka_sidecar.codec.records import Batch, BatchTooLargeError, Records, batches, build_commit_marker, reseal
from kafka_sidecar.interceptors.consuming import Consumers, FailClosedError
from kafka_sidecar.interceptors.contract import Context
from kafka_sidecar.proxy.interception.stats import Observed

API = "Fetch"
MAGIC = 2
SMALLEST = 61  # bytes of a batch that compaction has emptied: its header
ABORT = 0  # type of a control record; 1: COMMIT
CONTROL_KEY_SIZE = 4  # version int16, type int16
RECORDS_AT_ONCE = 1000  # of a partition that interceptors may see while others wait


class TooLongError(Exception):
    """There is more than may be inflated, or seen by interceptors, while others wait."""


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
    following: int | None = None  # the offset behind those at the end, if these are all hidden
    refused: bool = False  # there are more that must not be shown, because what hides them could not


class Sight(Enum):
    """What a consumer shows of a batch to its application."""

    SHOWN = "shown"
    NEVER = "never"  # control batches, and those that compaction has emptied
    ABORTED = "aborted"
    OLD = "old"  # formats that are not looked into


def consumed(
    reading: Reading,
    records: bytes | memoryview,
    aborted: Iterable[AbortedTransaction] | None,
    marker: bool,
    asked: int = 0,
) -> Left:
    """What a consumer gets in place of ``records``.

    Args:
        aborted: for a consumer that reads only what is committed, the transactions that are not; None for others.
        marker: whether what is hidden at the end becomes a marker, or nothing.
        asked: the offset that the client asks for; where there is no marker, a batch of which it has seen all that is
            left counts as hidden: such clients go on behind the last record, not the batch, and would ask again.

    Raises:
        TooLongError: it must be done in a thread.
    """
    hides = reading.chain.fail_closed
    try:
        found = batches(records, may_end_early=True)
    except CodecError:
        reading.observed.left_alone(API, "unreadable", reading.topic)
        return Left(b"" if hides else None, refused=hides)
    seen = list(_with_sight(found, aborted))
    inflated = {} if reading.final else _inflated(reading, [one for one, sight in seen if sight is Sight.SHOWN])
    news: list[tuple[Batch, bytes | memoryview]] = []
    refused, changed = False, hides and sum(len(batch.data) for batch in found) < len(records)
    for batch, sight in seen:
        new = _left(reading, batch, sight, inflated.get(id(batch)))
        if new is None and hides:
            refused = True
            break
        if new and not marker and new is not batch.data and _is_seen(new, asked):
            new = b""
        news.append((batch, batch.data if new is None else new))
        changed = changed or news[-1][1] is not batch.data
    return _joined(news, refused, marker) if changed or refused else Left(None)


def _joined(news: list[tuple[Batch, bytes | memoryview]], refused: bool, marker: bool) -> Left:
    """Each batch with what is left of it, as one records field."""
    parts = [new for _, new in news if new]
    shown = len(news)
    while shown and not news[shown - 1][1]:
        shown -= 1
    if shown == len(news):
        return Left(b"".join(parts), refused=refused)
    first, last = news[shown][0], news[-1][0]
    if marker:
        parts.append(build_commit_marker(last, first.header.base_offset))
    return Left(b"".join(parts), last.header.base_offset + last.header.last_offset_delta + 1, refused)


def _is_seen(data: bytes | memoryview, asked: int) -> bool:
    """Whether all records of a batch are before an offset."""
    [batch] = batches(data)
    base = batch.header.base_offset
    return base < asked and all(base + record.offset_delta < asked for record in batch.records())


def _left(reading: Reading, batch: Batch, sight: Sight, records: Records | None) -> bytes | memoryview | None:
    """What is left of a batch: nothing where all of it is hidden, None where it cannot be looked into."""
    if sight is Sight.OLD:
        reading.observed.left_alone(API, "old_format", reading.topic)
        return None
    if sight is Sight.SHOWN:
        return _consumed(reading, batch, records)
    return b"" if sight is Sight.ABORTED and reading.chain.fail_closed else batch.data


def _inflated(reading: Reading, found: list[Batch]) -> dict[int, Records]:
    """The records of all batches before any interceptor sees one: it must not see any twice."""
    if sum(batch.header.count for batch in found) > RECORDS_AT_ONCE:
        raise TooLongError
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


def _consumed(reading: Reading, batch: Batch, records: Records | None) -> bytes | memoryview | None:
    observed = reading.observed
    try:
        if not batch.crc_is_right():  # written anew, what was damaged on its way would look whole
            raise CodecError("a wrong checksum")
        records = records or batch.records(reading.limit)
    except CodecError as error:
        why = "too_large" if isinstance(error, BatchTooLargeError) else "unreadable"
        observed.left_alone(API, why, reading.topic)
        return None
    try:
        left = reading.chain.consume(reading.context, reading.topic, reading.partition, batch.header, records)
    except FailClosedError:  # its failure has been told
        return None
    if left is records:
        observed.batches[API, "unchanged"] += 1
        return batch.data
    observed.batches[API, "changed" if len(left) else "dropped"] += 1
    return reseal(batch, left) if len(left) else b""


def _with_sight(found: list[Batch], aborted: Iterable[AbortedTransaction] | None) -> Iterator[tuple[Batch, Sight]]:
    """Each batch, and what a consumer shows of it: as Kafka's CompletedFetch decides it."""
    pending = sorted(aborted or (), key=lambda one: one.first_offset, reverse=True)
    open_ones: set[int] = set()
    for batch in found:
        if batch.magic != MAGIC:
            yield batch, Sight.OLD
            continue
        header = batch.header
        last = header.base_offset + header.last_offset_delta
        while pending and pending[-1].first_offset <= last:
            open_ones.add(pending.pop().producer_id)
        if header.is_control:
            if header.producer_id in open_ones and _is_abort(batch):
                open_ones.discard(header.producer_id)
            yield batch, Sight.NEVER
        elif header.is_transactional and header.producer_id in open_ones:
            yield batch, Sight.ABORTED
        else:
            yield batch, Sight.SHOWN if header.count or len(batch.data) > SMALLEST else Sight.NEVER


def _is_abort(batch: Batch) -> bool:
    try:
        key = next(iter(batch.records())).key
    except (CodecError, StopIteration):
        return False
    return key is not None and len(key) >= CONTROL_KEY_SIZE and int.from_bytes(key[2:4], "big") == ABORT
