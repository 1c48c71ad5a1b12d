"""What is left of a partition's fetched records after `on_consume`: batches changed, emptied or relayed as they are.

What is dropped before visible records leaves a gap. A batch is never sent empty: some clients stop there. Where the
records of a response end with dropped ones, one COMMIT marker without a transaction carries the consumer over them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from enum import Enum
from typing import NamedTuple

from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.messages.fetch import AbortedTransaction
from kafka_sidecar.codec.records import (
    BATCH_HEADER_SIZE,
    Batch,
    BatchTooLargeError,
    Records,
    batches,
    build_commit_marker,
    reseal,
)
from kafka_sidecar.interceptors.consuming import Consumers, FailClosedError
from kafka_sidecar.interceptors.contract import Context
from kafka_sidecar.proxy.exchanges.batch_cost import MAX_LIGHT_BYTES, MAX_LIGHT_RECORDS
from kafka_sidecar.proxy.interception.services import Report

API = "Fetch"
MAGIC = 2
ABORT = 0  # type of a control record; 1: COMMIT
CONTROL_KEY_SIZE = 4  # version int16, type int16
MAX_OFFSET, MAX_OFFSET_DELTA = 2**63 - 1, 2**31 - 1
MAX_INLINE_RECORDS = 1000  # of a partition, to be intercepted while others wait


class Remaining(NamedTuple):
    """What a consumer gets in place of the records that came."""

    records: bytes | None  # None: nothing has changed
    following: int | None = None  # the offset after the hidden records at the end, if there are any
    withheld: bool = False  # there are more records, which could not be looked into and must not be shown


UNCHANGED = Remaining(None)


class Visibility(Enum):
    """What a consumer shows of a batch to its application."""

    SHOWN = "shown"
    NEVER = "never"  # control batches, and those that compaction has emptied
    ABORTED = "aborted"
    OLD = "old"  # formats that are not looked into


SHOWN = Visibility.SHOWN


class PartitionReading:
    """The records of one partition on their way through its interceptors. Each batch is inflated once at most, also
    where the loop gives up and a thread begins again."""

    __slots__ = (
        "_aborted", "_batches", "_chain", "_context", "_hides", "_index", "_inflated", "_records", "_stats", "_topic",
    )  # fmt: skip

    def __init__(
        self,
        chain: Consumers,
        context: Context,
        topic: str,
        index: int,
        stats: Report,
        records: bytes | memoryview,
        aborted: Collection[AbortedTransaction] = (),
    ) -> None:
        """``aborted``: the transactions that the consumer does not show, if it reads only committed records."""
        self._chain = chain
        self._hides = chain.fail_closed
        self._context = context
        self._topic = topic
        self._index = index
        self._stats = stats
        self._records = records
        self._aborted = aborted
        self._batches: list[tuple[Batch, Visibility]] | None = None
        self._inflated: dict[int, Records] = {}  # by index of the batch

    def inflate(self, limit: int) -> bool:
        """Inflate all batches that are shown, before any interceptor sees one: it must not see any twice.

        False where there are too many records for a turn of the loop, or more than ``limit`` bytes; what is inflated
        then is kept for `consume`.
        """
        try:
            found = self._cut()
        except CodecError:
            return True
        count, room = 0, limit
        for batch, visibility in found:
            if visibility is SHOWN and (count := count + batch.header.count) > MAX_INLINE_RECORDS:
                return False
        for at, (batch, visibility) in enumerate(found):
            if visibility is SHOWN:
                try:
                    self._inflated[at] = records = batch.records(max(room, 1))
                except BatchTooLargeError:
                    return False
                except CodecError:
                    continue
                room -= len(records.payload)
        return True

    def consume(self, limit: int, marker: bool = True, offset: int = 0) -> Remaining:
        """Let the interceptors see the records.

        Args:
            limit: bytes that a batch may have when it is inflated; a larger one is not intercepted.
            marker: whether hidden records at the end become a marker, or nothing.
            offset: that the client has asked for. Without a marker, a batch of which the client has seen all that is
                left counts as hidden: such clients go on after the last record, not the batch, and would ask again.
        """
        hides, seen_to = self._hides, 0 if marker else offset
        try:
            found = self._cut()
        except CodecError:
            return self.give_up("unreadable")
        news: list[tuple[Batch, bytes | memoryview]] = []
        withheld, changed = False, hides and sum(len(batch.data) for batch, _ in found) < len(self._records)
        for at, (batch, visibility) in enumerate(found):
            new = self._consume_batch(at, batch, visibility, limit, seen_to)
            if new is None:
                if hides:
                    withheld = True
                    break
                new = batch.data
            news.append((batch, new))
            changed = changed or new is not batch.data
        return _join(news, withheld, marker) if changed or withheld else UNCHANGED

    def give_up(self, why: str) -> Remaining:
        """The interceptors cannot see any of the records."""
        self._stats.skipped(API, why, self._topic)
        return Remaining(b"" if self._hides else None, withheld=self._hides)

    @property
    def is_light(self) -> bool:
        """Whether the interceptors will soon have seen the records."""
        try:
            found = self._cut()
        except CodecError:
            return True
        count = sum(batch.header.count for batch, visibility in found if visibility is SHOWN)
        return count <= MAX_LIGHT_RECORDS and len(self._records) <= MAX_LIGHT_BYTES

    def _cut(self) -> list[tuple[Batch, Visibility]]:
        if self._batches is None:
            found = batches(self._records, may_end_early=True)
            self._batches = list(_with_visibility(found, self._aborted))
        return self._batches

    def _consume_batch(
        self, at: int, batch: Batch, visibility: Visibility, limit: int, seen_to: int
    ) -> bytes | memoryview | None:
        """What is left of a batch: nothing where all of it is hidden, None where it cannot be looked into."""
        if visibility is Visibility.OLD:
            self._stats.skipped(API, "old_format", self._topic)
            return None
        if visibility is not SHOWN:
            return b"" if visibility is Visibility.ABORTED and self._hides else batch.data
        try:
            if not batch.crc_is_right():  # with a new checksum, damaged records would look valid
                raise CodecError("a wrong checksum")
            records = self._inflated.pop(at, None) or batch.records(limit)
        except CodecError as error:
            why = "too_large" if isinstance(error, BatchTooLargeError) else "unreadable"
            self._stats.skipped(API, why, self._topic)
            return None
        return self._consume_records(batch, records, seen_to)

    def _consume_records(self, batch: Batch, records: Records, seen_to: int) -> bytes | memoryview | None:
        try:
            left = self._chain.consume(self._context, self._topic, self._index, batch.header, records)
        except FailClosedError:  # its failure has been reported
            return None
        if left is records:
            self._stats.batches[API, "unchanged"] += 1
            return batch.data
        self._stats.batches[API, "changed" if len(left) else "dropped"] += 1
        return b"" if not len(left) or _ends_before(batch, left, seen_to) else reseal(batch, left)


def _join(news: list[tuple[Batch, bytes | memoryview]], withheld: bool, marker: bool) -> Remaining:
    """Each batch with what is left of it, as one records field."""
    parts = [new for _, new in news if new]
    shown = len(news)
    while shown and not news[shown - 1][1]:
        shown -= 1
    if shown == len(news):
        return Remaining(b"".join(parts), withheld=withheld)
    first, last = news[shown][0], news[-1][0]
    first_offset, last_offset = first.header.base_offset, last.header.base_offset + last.header.last_offset_delta
    if not 0 <= first_offset <= last_offset < MAX_OFFSET:  # a consumer could not be carried over them
        return Remaining(b"".join(parts), withheld=True)
    if marker:  # its base may be later than the first hidden record: what is missing there looks compacted
        parts.append(build_commit_marker(last, max(first_offset, last_offset - MAX_OFFSET_DELTA)))
    return Remaining(b"".join(parts), last_offset + 1, withheld)


def _ends_before(batch: Batch, records: Records, offset: int) -> bool:
    """Whether all records of a batch are before an offset."""
    base = batch.header.base_offset
    return base < offset and all(base + record.offset_delta < offset for record in records)


def _with_visibility(found: list[Batch], aborted: Collection[AbortedTransaction]) -> Iterator[tuple[Batch, Visibility]]:
    """Each batch, and what a consumer shows of it: as Kafka's CompletedFetch decides it."""
    pending = sorted(aborted, key=_first_offset, reverse=True) if aborted else []
    open_ones: set[int] = set()
    for batch in found:
        if batch.magic != MAGIC:
            yield batch, Visibility.OLD
            continue
        header = batch.header
        while pending and pending[-1].first_offset <= header.base_offset + header.last_offset_delta:
            open_ones.add(pending.pop().producer_id)
        if header.is_control:
            if header.producer_id in open_ones and _is_abort(batch):
                open_ones.discard(header.producer_id)
            yield batch, Visibility.NEVER
        elif open_ones and header.is_transactional and header.producer_id in open_ones:
            yield batch, Visibility.ABORTED
        else:
            has_records = header.count or len(batch.data) > BATCH_HEADER_SIZE
            yield batch, SHOWN if has_records else Visibility.NEVER


def _first_offset(transaction: AbortedTransaction) -> int:
    return transaction.first_offset


def _is_abort(batch: Batch) -> bool:
    try:
        key = next(iter(batch.records())).key
    except (CodecError, StopIteration):
        return False
    return key is not None and len(key) >= CONTROL_KEY_SIZE and int.from_bytes(key[2:4], "big") == ABORT
