"""The log of one partition as assembly sees it: reads of the broker, what was seen before, what is kept."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial

from crc32c import crc32c

from kafka_sidecar.codec.apis import ErrorCode
from kafka_sidecar.codec.batch_layout import ATTRIBUTES_AT
from kafka_sidecar.codec.crc_parts import without_start
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.messages.fetch import AbortedTransaction
from kafka_sidecar.codec.records import BATCH_HEADER_SIZE, Batch, Records, batches, lone_record
from kafka_sidecar.codec.visibility import SHOWN, all_visible, committed_only, offsets_of
from kafka_sidecar.large_messages.cache import Place, SegmentCache
from kafka_sidecar.large_messages.classify import Damaged, Part, Reader
from kafka_sidecar.large_messages.reading import READ_BYTES, Fetched, Read, Report, UnreadableError, compute
from kafka_sidecar.large_messages.segment import Segment
from kafka_sidecar.large_messages.segment_index import SegmentIndex
from kafka_sidecar.large_messages.settings import TopicSettings
from kafka_sidecar.plugins.effects import Steps

RECORD_BYTES = 64 << 10  # that a record may have beside its payload
SLICE_OVERHEAD_BYTES = 192  # of a batch with one slice: batch and record header, `_lm`, a short key
MAX_LOOK_BACK_BYTES = 256 << 20  # read for one message


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

    def look_back(self, offset: int) -> Steps[None]:
        """See all segments in the gap before an offset, so that `index` has them; those that li would see."""
        first, room = max(offset - self.settings.look_back, 0), MAX_LOOK_BACK_BYTES
        ranges = [(0, offset)] if self.resumed is None else self.resumed(offset)
        ranges = [(max(start, first), end) for start, end in ranges]
        unread = [one for one in ranges if self.index.first_unread(*one) is not None]
        if unread:
            self.report.looked_back()
        for start, end in unread:
            room = yield from self._read_unread(start, end, room)

    def _read_unread(self, start: int, end: int, room: int) -> Steps[int]:
        """What was not read of these offsets, up to ``room`` bytes; what is left of them."""
        while room > 0 and (at := self.index.first_unread(start, end)) is not None:
            fetched = yield from self.read(at, READ_BYTES, self.is_committed_only)
            if fetched.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                log_start = (yield from self.read(end, 1)).log_start_offset
                if log_start <= at:  # nor is it the log's start that is missing
                    break
                self.index.note(at, min(log_start, end))
                continue
            room -= len(fetched.records)
            read_to, parts = yield from compute(partial(self._see, fetched.records, fetched.aborted), fetched.records)
            if read_to <= at:
                break
            self.index.note(at, read_to, parts)
            for part in parts:
                self.keep(part)
        return room

    def _see(self, data: bytes | memoryview, aborted: Collection[AbortedTransaction]) -> tuple[int, list[Part]]:
        """The end of what was read, exclusive, and the parts that its readers see."""
        visibilities = committed_only(aborted) if self.is_committed_only else all_visible
        end, parts = -1, list[Part]()
        for batch, visibility in visibilities(cut_read(data)):
            if visibility is SHOWN:
                try:
                    _, found = self.parts_of(batch, self.settings.max_message + RECORD_BYTES)
                except CodecError:
                    found = {}
                parts += [part for part in found.values() if isinstance(part, Part)]
            end = offsets_of(batch)[1] + 1
        return end, parts


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
