"""The log of one partition as assembly sees it: reads of the broker, what was seen before, what is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from crc32c import crc32c

from kafka_sidecar.codec.apis import ErrorCode
from kafka_sidecar.codec.batch_layout import ATTRIBUTES_AT
from kafka_sidecar.codec.crc_parts import without_start
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.records import BATCH_HEADER_SIZE, Batch, Records, batches, lone_record
from kafka_sidecar.codec.visibility import SHOWN, Visibility, all_visible, committed_only, offsets_of
from kafka_sidecar.large_messages.cache import Place, SegmentCache
from kafka_sidecar.large_messages.classify import Damaged, Part, Reader
from kafka_sidecar.large_messages.reading import READ_BYTES, Fetched, Read, Report, UnreadableError, compute
from kafka_sidecar.large_messages.segment import Segment
from kafka_sidecar.large_messages.segment_index import MAX_LOOK_BACK_BYTES, SegmentIndex, Window
from kafka_sidecar.large_messages.settings import TopicSettings
from kafka_sidecar.plugins.effects import Steps, Work

RECORD_BYTES = 64 << 10  # that a record may have beside its payload
SLICE_OVERHEAD_BYTES = 192  # of a batch with one slice: batch and record header, `_lm`, a short key
FIRST_READ_BYTES = 1 << 20  # of what is looked back to: mostly it is enough
MAX_PIECE_BYTES = 64 << 20  # read and inflated in one piece of work


@dataclass(frozen=True, slots=True)
class PartitionLog:
    """One partition for readers of one isolation level."""

    topic: bytes | str  # its id (16 bytes), or its name in a cluster without ids
    partition: int
    settings: TopicSettings
    reader: Reader
    cache: SegmentCache
    index: SegmentIndex
    is_committed_only: bool
    report: Report
    max_records: int
    resumed: Callable[[int], list[tuple[int, int]]] | None = None  # all that may be looked back to; None: the gap
    held: dict[int, Segment] = field(default_factory=dict)  # by offset, of a response that is in memory anyway
    window: Window = field(default_factory=lambda: Window(0, 0))  # of the response: what was seen before where it is

    def place(self, offset: int) -> Place:
        return Place(self.topic, self.partition, offset)

    def parts_of(self, batch: Batch, limit: int) -> tuple[Records, dict[int, Part | Damaged]]:
        """The records of a batch, and the parts of large messages among them, whose values may be empty in the records.

        Raises:
            CodecError: the batch is damaged, or has more than ``limit`` bytes when inflated.
        """
        if not batch.crc_is_right():  # with a new checksum, damaged records would look valid
            raise CodecError("a wrong checksum")
        base, crc = batch.header.base_offset, _records_crc(batch)
        if len(batch.data) <= limit and (lone := lone_record(batch)) is not None:
            part = self.reader.part_of(base, lone, crc)
            if part is not None:
                return lone.records, {0: part}
        records = batch.records(limit, self.max_records)
        return records, self.reader.parts(base, records, crc)

    def keep(self, part: Part, is_held: bool = False) -> None:
        """Keep the payload of a part, as long as there is room.

        ``is_held``: it is a view of what stays in memory as long as this object.
        """
        if is_held:
            self.held[part.offset] = part.segment
        self.cache.put(self.place(part.offset), part.segment)

    def segment_at(self, offset: int, message_id: bytes, number: int) -> Segment | None:
        """The segment at an offset, if it is kept."""
        found = self.held.get(offset) or self.cache.get(self.place(offset))
        if found is None or found.message_id != message_id or found.number != number:
            return None
        return found

    def read(self, offset: int, max_bytes: int, is_committed_only: bool = False) -> Steps[Fetched]:
        """Records from an offset on. Raises UnreadableError; OFFSET_OUT_OF_RANGE is a result."""
        fetched: Fetched = yield Read(offset, max(min(max_bytes, READ_BYTES), 1), is_committed_only)
        self.report.read(len(fetched.records))
        if fetched.error_code not in {ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE}:
            raise UnreadableError(fetched.error_code)
        return fetched

    def look_back(self) -> Steps[bool]:
        """See all segments in the gap before the end of the window: those that li would see.

        Returns:
            False: what was not seen before is too much to be read. It is not searched again.
        """
        if self.window.is_seen:
            return True
        window, gap = self.window, (self.window.first, self.window.end)
        ranges = [gap] if self.resumed is None else self.resumed(window.end)
        ranges = [(max(start, gap[0]), min(end, gap[1])) for start, end in ranges]
        unread = [one for one in ranges if window.unread(*one) is not None]
        if unread:
            self.report.looked_back()
        sees_all = True
        for one in unread:
            while (missing := window.unread(*one)) is not None:
                sees_all &= yield from self._read_unread(*missing)
        window.is_seen = self.resumed is None
        return sees_all

    def _read_unread(self, start: int, end: int) -> Steps[bool]:
        """See these offsets. If it takes more than there is room for, only the last of them; False then."""
        window, at, sees_all = self.window, start, True
        max_bytes, spent, seen_offsets = FIRST_READ_BYTES, 0, 0
        while at < end:
            fetched = yield from self.read(at, max_bytes, self.is_committed_only)
            if fetched.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                later = yield from self.read(end, 1)
                log_start = later.log_start_offset  # -1: an old version does not say it
                if later.error_code or 0 <= log_start <= at:  # it is not the log's start that is missing
                    raise UnreadableError(ErrorCode.UNKNOWN_SERVER_ERROR)
                deleted_to = min(log_start, end) if log_start >= 0 else end
                window.insert(at, deleted_to)
                at = deleted_to
                continue
            visibilities = committed_only(fetched.aborted) if self.is_committed_only else all_visible
            found = visibilities((yield from compute(partial(cut_read, fetched.records), fetched.records)))
            before = at
            while at < end:
                seen: _Seen = yield Work(partial(self._see, found, at, end))
                if seen.end <= at:
                    break
                window.insert(at, seen.end, seen.parts)
                for part in seen.parts:
                    self.keep(part)
                window.room -= seen.bytes
                spent, seen_offsets, at = spent + seen.bytes, seen_offsets + seen.end - at, seen.end
                affordable = max(window.room, 0) * seen_offsets // max(spent, 1)  # offsets, if they are like these
                if affordable < end - at and window.room < MAX_LOOK_BACK_BYTES // 2:
                    window.insert(at, end - affordable)  # given up, for the last ones
                    at, sees_all = end - affordable, False
                    break
            if at == before:  # although there are records after it
                raise UnreadableError(ErrorCode.UNKNOWN_SERVER_ERROR)
            max_bytes = READ_BYTES
        return sees_all

    def _see(self, found: Iterator[tuple[Batch, Visibility]], start: int, end: int) -> _Seen:
        """The parts at these offsets that readers see, in the batches that are left, up to about MAX_PIECE_BYTES."""
        parts, cost, at, limit = list[Part](), 0, start, self.settings.max_message + RECORD_BYTES
        for batch, visibility in found:
            first, last = offsets_of(batch)
            at = min(last + 1, end)
            cost += len(batch.data)
            if visibility is SHOWN and first < end:
                try:
                    records, of_batch = self.parts_of(batch, limit)
                except CodecError:
                    cost += limit if batch.header.codec else 0
                else:
                    cost += len(records.payload) if batch.header.codec else 0
                    parts += [one for one in of_batch.values() if isinstance(one, Part) and start <= one.offset < end]
            if at == end or cost >= MAX_PIECE_BYTES:
                break
        return _Seen(at, parts, cost)


class _Seen(NamedTuple):
    end: int  # exclusive
    parts: list[Part]
    bytes: int  # that were read or inflated


def cut_read(data: bytes | memoryview) -> list[Batch]:
    """The batches of what was read for a message.

    Raises:
        UnreadableError: they cannot be cut apart.
    """
    try:
        return batches(data, may_end_early=True)
    except CodecError as error:
        raise UnreadableError(ErrorCode.CORRUPT_MESSAGE) from error


def _records_crc(batch: Batch) -> int | None:
    """CRC-32C of the records of a batch, whose own is right; None: compressed ones have none."""
    if batch.header.codec:
        return None
    header = crc32c(batch.data[ATTRIBUTES_AT:BATCH_HEADER_SIZE])
    return without_start(batch.header.crc, header, len(batch.data) - BATCH_HEADER_SIZE)
