"""The records of a fetched partition as a stage of features leaves them: batches changed, emptied or as they came.

What is dropped before visible records leaves a gap. A batch is never sent empty: some clients stop there. Where the
records of a response end with dropped ones, one COMMIT marker without a transaction carries the consumer over them;
a batch that ends with dropped ones ends before the marker, since librdkafka's position is else that of the last record.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import NamedTuple, Protocol

from kafka_sidecar.codec.checkpoint import ThreadRequiredError
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.large_bytes import join
from kafka_sidecar.codec.records import (
    Batch,
    BatchTooLargeError,
    Records,
    batches,
    build_commit_marker,
    end_at,
    reseal,
)
from kafka_sidecar.codec.visibility import MAX_OFFSET, SHOWN, Visibility, all_visible, offsets_of
from kafka_sidecar.plugins.effects import Need, TimeLeft
from kafka_sidecar.proxy.exchanges.limits import DEFAULT_LIMITS, MAX_LIGHT_BYTES, are_light, takes_long

MAX_INLINE_RECORDS = 1000  # of a partition, to be looked into while others wait

Visibilities = Callable[[list[Batch]], Iterable[tuple[Batch, Visibility]]]
Key = tuple[str, object]  # who has to wait, and for what


class WaitRequired(Exception):  # noqa: N818 - not an error: show the records again once the need is met
    """A look has to wait for something; ``need`` makes the need with the time that is left."""

    def __init__(self, key: Key, need: Callable[[TimeLeft], Need]) -> None:
        super().__init__(key)
        self.key, self.need = key, need


class Look(Protocol):
    """What a feature makes of the records of one partition."""

    @property
    def hides(self) -> bool:
        """Whether a batch that cannot be looked into must not reach the client."""
        ...

    @property
    def withholds(self) -> bool:
        """Whether records must not reach the client where there was no time to look into them."""
        ...

    @property
    def records_at_once(self) -> int:
        """How many may be looked into while all other connections wait."""
        ...

    @property
    def bytes_at_once(self) -> int:
        """The same in bytes of inflated records."""
        ...

    @property
    def records_per_turn(self) -> int:
        """How many fit into a turn of the event loop, as measured."""
        ...

    def left_of(self, batch: Batch, records: Records, asked: Collection[Key]) -> Records | None:
        """The records that the client gets, the same object if nothing changes; None: it must not get any yet.

        The checksum is not checked: before anything changes, or is said of the records, `check_crc` has to be called.

        Args:
            asked: what has been waited for. What raises an error is shown the same records again, no others twice.

        Raises:
            WaitRequired: something is needed first.
            ThreadRequiredError: it would take long.
            CodecError: the records cannot be read, or are not what the checksum says.
        """
        ...


def check_crc(batch: Batch) -> None:
    """Raises CodecError if the checksum is wrong: with a new one, damaged records would look valid."""
    if not batch.crc_is_right():
        raise CodecError("a wrong checksum")


class Report(Protocol):
    """Counts and logs what becomes of batches."""

    batches: Counter[tuple[str, str]]  # by API and what became of them

    def skipped(self, api: str, reason: str, topic: str) -> None:
        """A batch that should have been looked into passes as it is, or is withheld with all that follows."""

    def hidden(self, api: str, reason: str, topic: str) -> None:
        """A batch that could not be looked into is dropped."""


class Remaining(NamedTuple):
    """What a consumer gets in place of the records that came."""

    records: bytes | None  # None: nothing has changed
    following: int | None = None  # the offset after the hidden records at the end, if there are any
    # From this offset on there are more records, which could not be looked into and must not be shown; -1: unknown.
    withheld_from: int | None = None


UNCHANGED = Remaining(None)


class PartitionReading:
    """The records of one partition on their way through a stage. Each batch is inflated once at most, also where the
    loop gives up and a thread begins again, and where the stage has to wait."""

    __slots__ = (
        "_api", "_batches", "_hides_unreadable", "_inflated", "_left", "_look", "_max_records", "_news", "_records",
        "_report", "_topic", "_visibilities", "asked",
    )  # fmt: skip

    def __init__(
        self,
        look: Look,
        topic: str,
        report: Report,
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
            max_records: that a batch may have to be looked into.
        """
        self._look = look
        self._hides_unreadable = hides_unreadable
        self._max_records = max_records
        self._topic = topic
        self._report = report
        self._records = records
        self._visibilities = visibilities
        self._api = api
        self._batches: list[tuple[Batch, Visibility]] | None = None
        self._inflated: dict[int, Records] = {}  # by index of the batch
        self._news: list[tuple[Batch, bytes | memoryview]] = []  # what is left of those that were looked into
        self._left: tuple[Batch, Records] | None = None  # the last batch of which some records are dropped
        self.asked: set[Key] = set()  # what was waited for

    def inflate(self, limit: int) -> bool:
        """Inflate all batches that are shown, before the stage sees one: it must not see any twice.

        False where there are too many records for a turn of the loop, or more than ``limit`` bytes; what is inflated
        then is kept for `consume`.
        """
        try:
            found = self._cut()
        except CodecError:
            return True
        count, room = 0, limit
        max_records = min(MAX_INLINE_RECORDS, self._look.records_at_once)
        for batch, visibility in found:
            if visibility is SHOWN:
                count += batch.header.count
                if count > max_records or takes_long(batch, max_records):
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
        """Let the stage see the records, or go on where it had to wait.

        Args:
            limit: bytes that a batch may have when it is inflated; a larger one is not looked into.
            marker: whether hidden records at the end become a marker, or nothing.
            offset: that the client has asked for. Without a marker, a batch of which the client has seen all that is
                left counts as hidden: such clients go on after the last record, not the batch, and would ask again.

        Raises:
            WaitRequired: something is needed; then call this again.
            ThreadRequiredError: call this again in a thread.
        """
        hides, seen_to = self._look.hides, 0 if marker else offset
        try:
            found = self._batches or self._cut()
        except CodecError:
            return self.give_up("unreadable", hides)
        news, withheld_from = self._news, None
        changed = hides and sum([len(batch.data) for batch, _ in found]) < len(self._records)
        if news:  # it had to wait
            changed = changed or any(new is not batch.data for batch, new in news)
        for at, (batch, visibility) in enumerate(found[len(news) :], len(news)):
            new = self._consume_batch(at, batch, visibility, limit, seen_to)
            if new is None:
                withheld_from = offsets_of(batch)[0]
                break
            news.append((batch, new))
            changed = changed or new is not batch.data
        if not changed and withheld_from is None:
            return UNCHANGED
        return _join(news, withheld_from, marker, self._left)

    def time_out(self) -> Remaining:
        """There was no time to look into the records."""
        return self.give_up("timed_out", self._look.withholds)

    def give_up(self, why: str, withholds: bool) -> Remaining:
        """The stage cannot see any of the records."""
        self._report.skipped(self._api, why, self._topic)
        return Remaining(b"", withheld_from=-1) if withholds else UNCHANGED

    @property
    def is_light(self) -> bool:
        """Whether the stage will soon have seen the records."""
        try:
            found = self._cut()
        except CodecError:
            return True
        count = sum(batch.header.count for batch, visibility in found if visibility is SHOWN)
        return are_light(count, self._look.records_per_turn) and len(self._records) <= MAX_LIGHT_BYTES

    def _cut(self) -> list[tuple[Batch, Visibility]]:
        if self._batches is None:
            found = batches(self._records, may_end_early=True)
            self._batches = list(self._visibilities(found))
        return self._batches

    def _consume_batch(
        self, at: int, batch: Batch, visibility: Visibility, limit: int, seen_to: int
    ) -> bytes | memoryview | None:
        """What is left of a batch: nothing where all of it is hidden, None where it is withheld."""
        if visibility is Visibility.OLD:
            return self._skip(batch, "old_format")
        if visibility is not SHOWN:
            return b"" if visibility is Visibility.SKIPPED and self._look.hides else batch.data
        try:
            records = self._inflated.pop(at, None) or batch.records(limit, self._max_records)
            try:
                left = self._look.left_of(batch, records, self.asked)
            except (WaitRequired, ThreadRequiredError):
                self._inflated[at] = records
                raise
        except CodecError as error:
            return self._skip(batch, "too_large" if isinstance(error, BatchTooLargeError) else "unreadable")
        if left is None:
            return None
        if left is records:
            self._report.batches[self._api, "unchanged"] += 1
            return batch.data
        self._report.batches[self._api, "changed" if len(left) else "dropped"] += 1
        if 0 < len(left) < len(records):
            self._left = batch, left
        return b"" if not len(left) or _ends_before(batch, left, seen_to) else reseal(batch, left)

    def _skip(self, batch: Batch, reason: str) -> bytes | memoryview | None:
        """What is left of a batch that cannot be looked into."""
        if self._look.hides and self._hides_unreadable:
            self._report.hidden(self._api, reason, self._topic)
            return b""
        self._report.skipped(self._api, reason, self._topic)
        return None if self._look.hides else batch.data


def _join(
    news: list[tuple[Batch, bytes | memoryview]], withheld_from: int | None, marker: bool,
    left: tuple[Batch, Records] | None,
) -> Remaining:  # fmt: skip
    """Each batch with what is left of it, as one records field; ``left``: of the last one that is left in part."""
    parts = [new for _, new in news if new]
    shown = len(news)
    while shown and not news[shown - 1][1]:
        shown -= 1
    following = None
    if shown < len(news):
        (first, _), (_, last) = offsets_of(news[shown][0]), offsets_of(news[-1][0])
        if not 0 <= first <= last < MAX_OFFSET:  # a consumer could not be carried over them
            return Remaining(join(parts), withheld_from=first)
        following = last + 1
    if marker and news:
        parts += _tail(news, shown, parts, left)
    return Remaining(join(parts), following, withheld_from)


def _tail(
    news: list[tuple[Batch, bytes | memoryview]], shown: int, parts: list[bytes | memoryview],
    left: tuple[Batch, Records] | None,
) -> Iterator[bytes]:  # fmt: skip
    """The marker for what is hidden at the end; a batch that ends so ends before it."""
    first, last = offsets_of(news[shown][0])[0] if shown < len(news) else MAX_OFFSET, offsets_of(news[-1][0])[1]
    if shown and left is not None and left[0] is (batch := news[shown - 1][0]):
        delta = max(record.offset_delta for record in left[1])
        start = batch.header.base_offset + delta + 1
        if 0 <= delta < batch.header.last_offset_delta and 0 < start <= last < MAX_OFFSET:
            parts[-1] = end_at(bytes(parts[-1]), delta)
            first = start
    if first <= last:
        yield build_commit_marker(news[-1][0], first, last)


def _ends_before(batch: Batch, records: Records, offset: int) -> bool:
    """Whether all records of a batch are before an offset."""
    base = batch.header.base_offset
    return base < offset and all(base + record.offset_delta < offset for record in records)
