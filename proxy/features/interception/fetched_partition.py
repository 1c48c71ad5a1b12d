"""What is left of a partition's fetched records after `on_consume`: batches changed, emptied or relayed as they are.

What is dropped before visible records leaves a gap. A batch is never sent empty: some clients stop there. Where the
records of a response end with dropped ones, one COMMIT marker without a transaction carries the consumer over them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.records import (
    Batch,
    BatchTooLargeError,
    Records,
    batches,
    build_commit_marker,
    reseal,
)
from kafka_sidecar.codec.visibility import MAX_OFFSET, SHOWN, Visibility, all_visible, offsets_of
from kafka_sidecar.interceptors.consuming import Consumers, FailClosedError, Key
from kafka_sidecar.interceptors.contract import Context
from kafka_sidecar.interceptors.guard import ResolveRequired
from kafka_sidecar.proxy.exchanges.limits import DEFAULT_LIMITS, MAX_LIGHT_BYTES, are_light
from kafka_sidecar.proxy.features.interception.services import Report

MAX_INLINE_RECORDS = 1000  # of a partition, to be intercepted while others wait

Visibilities = Callable[[list[Batch]], Iterable[tuple[Batch, Visibility]]]


class Remaining(NamedTuple):
    """What a consumer gets in place of the records that came."""

    records: bytes | None  # None: nothing has changed
    following: int | None = None  # the offset after the hidden records at the end, if there are any
    # From this offset on there are more records, which could not be looked into and must not be shown; -1: unknown.
    withheld_from: int | None = None


UNCHANGED = Remaining(None)


class PartitionReading:
    """The records of one partition on their way through its interceptors. Each batch is inflated once at most, also
    where the loop gives up and a thread begins again, and where interceptors have to wait."""

    __slots__ = (
        "_api", "_batches", "_chain", "_context", "_hides", "_hides_unreadable", "_index", "_inflated",
        "_max_records", "_news", "_records", "_stats", "_topic", "_visibilities", "asked",
    )  # fmt: skip

    def __init__(
        self,
        chain: Consumers,
        context: Context,
        topic: str,
        index: int,
        stats: Report,
        records: bytes | memoryview,
        visibilities: Visibilities = all_visible,
        *,
        api: str = "Fetch",
        hides_unreadable: bool = True,
        max_records: int = DEFAULT_LIMITS.max_records,
    ) -> None:
        """
        Args:
            visibilities: what the consumer shows of each batch.
            api: the label value of metrics.
            hides_unreadable: whether a batch that cannot be looked into is dropped where something is hidden, or
                withheld with all that follows.
            max_records: that a batch may have to be intercepted.
        """
        self._chain = chain
        self._hides = chain.fail_closed
        self._hides_unreadable = hides_unreadable
        self._max_records = max_records
        self._context = context
        self._topic = topic
        self._index = index
        self._stats = stats
        self._records = records
        self._visibilities = visibilities
        self._api = api
        self._batches: list[tuple[Batch, Visibility]] | None = None
        self._inflated: dict[int, Records] = {}  # by index of the batch
        self._news: list[tuple[Batch, bytes | memoryview]] = []  # what is left of those that interceptors have seen
        self.asked: set[Key] = set()  # what interceptors have waited for

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
        max_records = min(MAX_INLINE_RECORDS, self._chain.pace.records_at_once)
        for batch, visibility in found:
            if visibility is SHOWN and (count := count + batch.header.count) > max_records:
                return False
        for at, (batch, visibility) in enumerate(found):
            if visibility is SHOWN:
                try:
                    self._inflated[at] = records = batch.records(max(room, 1), self._max_records)
                except BatchTooLargeError:
                    return False
                except CodecError:
                    continue
                room -= len(records.payload)
        return True

    def consume(self, limit: int, marker: bool = True, offset: int = 0) -> Remaining:
        """Let the interceptors see the records, or go on where one had to wait.

        Args:
            limit: bytes that a batch may have when it is inflated; a larger one is not intercepted.
            marker: whether hidden records at the end become a marker, or nothing.
            offset: that the client has asked for. Without a marker, a batch of which the client has seen all that is
                left counts as hidden: such clients go on after the last record, not the batch, and would ask again.

        Raises:
            ResolveRequired: an interceptor has to wait; then call this again.
        """
        hides, seen_to = self._hides, 0 if marker else offset
        try:
            found = self._cut()
        except CodecError:
            return self.give_up("unreadable")
        news, withheld_from = self._news, None
        changed = hides and sum(len(batch.data) for batch, _ in found) < len(self._records)
        changed = changed or any(new is not batch.data for batch, new in news)
        for at, (batch, visibility) in enumerate(found[len(news) :], len(news)):
            new = self._consume_batch(at, batch, visibility, limit, seen_to)
            if new is None:
                if hides:
                    withheld_from = offsets_of(batch)[0]
                    break
                new = batch.data
            news.append((batch, new))
            changed = changed or new is not batch.data
        return _join(news, withheld_from, marker) if changed or withheld_from is not None else UNCHANGED

    def give_up(self, why: str) -> Remaining:
        """The interceptors cannot see any of the records."""
        self._stats.skipped(self._api, why, self._topic)
        return Remaining(b"", withheld_from=-1) if self._hides else UNCHANGED

    @property
    def is_light(self) -> bool:
        """Whether the interceptors will soon have seen the records."""
        try:
            found = self._cut()
        except CodecError:
            return True
        count = sum(batch.header.count for batch, visibility in found if visibility is SHOWN)
        return are_light(count, self._chain.pace.records_per_turn) and len(self._records) <= MAX_LIGHT_BYTES

    def _cut(self) -> list[tuple[Batch, Visibility]]:
        if self._batches is None:
            found = batches(self._records, may_end_early=True)
            self._batches = list(self._visibilities(found))
        return self._batches

    def _consume_batch(
        self, at: int, batch: Batch, visibility: Visibility, limit: int, seen_to: int
    ) -> bytes | memoryview | None:
        """What is left of a batch: nothing where all of it is hidden, None where it is not known what to hide."""
        if visibility is Visibility.OLD:
            return self._skip("old_format")
        if visibility is not SHOWN:
            return b"" if visibility is Visibility.SKIPPED and self._hides else batch.data
        try:
            if not batch.crc_is_right():  # with a new checksum, damaged records would look valid
                raise CodecError("a wrong checksum")
            records = self._inflated.pop(at, None) or batch.records(limit, self._max_records)
        except CodecError as error:
            why = "too_large" if isinstance(error, BatchTooLargeError) else "unreadable"
            return self._skip(why)
        try:
            return self._consume_records(batch, records, seen_to)
        except ResolveRequired:
            self._inflated[at] = records
            raise

    def _skip(self, reason: str) -> bytes | None:
        """What is left of a batch that cannot be looked into."""
        if self._hides and self._hides_unreadable:
            self._stats.hidden(self._api, reason, self._topic)
            return b""
        self._stats.skipped(self._api, reason, self._topic)
        return None

    def _consume_records(self, batch: Batch, records: Records, seen_to: int) -> bytes | memoryview | None:
        try:
            left = self._chain.consume(self._context, self._topic, self._index, batch.header, records, self.asked)
        except FailClosedError:  # its failure has been reported
            return None
        if left is records:
            self._stats.batches[self._api, "unchanged"] += 1
            return batch.data
        self._stats.batches[self._api, "changed" if len(left) else "dropped"] += 1
        return b"" if not len(left) or _ends_before(batch, left, seen_to) else reseal(batch, left)


def _join(news: list[tuple[Batch, bytes | memoryview]], withheld_from: int | None, marker: bool) -> Remaining:
    """Each batch with what is left of it, as one records field."""
    parts = [new for _, new in news if new]
    shown = len(news)
    while shown and not news[shown - 1][1]:
        shown -= 1
    if shown == len(news):
        return Remaining(b"".join(parts), withheld_from=withheld_from)
    (first, _), (_, last) = offsets_of(news[shown][0]), offsets_of(news[-1][0])
    if not 0 <= first <= last < MAX_OFFSET:  # a consumer could not be carried over them
        return Remaining(b"".join(parts), withheld_from=first)
    if marker:
        parts.append(build_commit_marker(news[-1][0], first, last))
    return Remaining(b"".join(parts), last + 1, withheld_from)


def _ends_before(batch: Batch, records: Records, offset: int) -> bool:
    """Whether all records of a batch are before an offset."""
    base = batch.header.base_offset
    return base < offset and all(base + record.offset_delta < offset for record in records)
