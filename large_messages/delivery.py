"""What a consumer gets of a partition with large messages: messages whole, segments hidden, all else as it came.

Hidden records before visible ones leave a gap. Where hidden ones are last, a COMMIT marker carries the consumer over
them, because no client stops at it and a batch without records stops some (KAFKA-5443). A message that does not fit in
the response ends it, unless nothing is in it yet (KIP-74).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from kafka_sidecar.codec.apis import ErrorCode
from kafka_sidecar.codec.batch_layout import LENGTH_AT, LENGTH_FROM
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.large_bytes import join
from kafka_sidecar.codec.message import Buffer
from kafka_sidecar.codec.messages.fetch import AbortedTransaction
from kafka_sidecar.codec.messages.share_fetch import AcquiredRecords
from kafka_sidecar.codec.records import Batch, BatchTooLargeError, Record, Records, batches, build_commit_marker
from kafka_sidecar.codec.visibility import (
    MAX_OFFSET,
    SHOWN,
    Visibility,
    acquired_only,
    all_visible,
    committed_only,
    offsets_of,
)
from kafka_sidecar.large_messages.assemble import TOO_LARGE, Missing, assemble, find_segments
from kafka_sidecar.large_messages.assembly import Assembly
from kafka_sidecar.large_messages.cache import Unfinished
from kafka_sidecar.large_messages.classify import Damaged, Part
from kafka_sidecar.large_messages.partition_log import RECORD_BYTES, SLICE_OVERHEAD_BYTES, PartitionLog
from kafka_sidecar.large_messages.reading import MAX_INLINE_BYTES, UnreadableError
from kafka_sidecar.large_messages.segment_index import Window
from kafka_sidecar.large_messages.sub_batches import SubBatch, begin_assembly, copy_records, delivered_headers
from kafka_sidecar.plugins.effects import TURN, Steps, Work

DAMAGED, COPY = "damaged", "copy"
WITHHELD = {True: ("too_large", ErrorCode.UNKNOWN_SERVER_ERROR), False: (DAMAGED, ErrorCode.CORRUPT_MESSAGE)}
UNKNOWN_BYTES = 64 << 10  # of a read where it is not known what comes
MAX_INLINE_COMPRESSED_BYTES = 64 << 10
MAX_INLINE_RECORDS = 1000  # of a batch
RECORDS_PER_TURN = 100  # each may be a segment whose message is to be searched


@dataclass(slots=True)
class ResponseRoom:
    """What a response may still hold, of all its partitions."""

    left: int  # bytes
    reserve: Callable[[int], None]  # called before memory for a message of so many bytes is used
    has_shown: bool = False  # whether it has a record that the application gets


@dataclass(slots=True)
class Delivery:
    """One partition of a response. `feed` it what the broker has sent, then what is read ahead.

    What was fed first must stay in memory as long as the delivery does: its segments are found there again.
    """

    log: PartitionLog
    unfinished: Unfinished
    room: ResponseRoom
    offset: int  # that the client asks for; 0: not known
    max_bytes: int  # of the partition, that the client asks for
    inflate_limit: int  # bytes that a batch may have
    next_offset: int = -1  # after all that was fed
    acquired: Sequence[AcquiredRecords] | None = None  # by a member of a share group (KIP-932), which shows no others
    is_changed: bool = False
    has_shown: bool = False
    has_grown: bool = False  # whether a message was assembled
    has_others: bool = False  # whether records are visible that are no large messages
    cut_at: int | None = None  # the first offset that the client does not get now
    large: list[tuple[int, int]] = field(default_factory=list)  # offset and segments of each message, 0: an object
    _out: list[Buffer] = field(default_factory=list)
    _aborted: list[tuple[int, Buffer]] = field(default_factory=list)  # batches that are hidden; before which of these
    _size: int = 0  # bytes of these
    _pending: int = 0  # bytes of the batch that is written again, which will be added
    _error_code: int | None = None
    _hidden_from: int | None = None  # the first offset of the hidden ones that are last
    _like: Batch | None = None  # the last batch that is hidden
    _last_part: Part | None = None  # that was seen
    _first: object = None  # in which all views of what was fed first are

    def feed(self, data: bytes | memoryview, aborted: Collection[AbortedTransaction]) -> Steps[None]:
        """Batches that follow those before. The client gets nothing of what cannot be looked into, nor what follows."""
        visibilities = committed_only(aborted) if self.log.is_committed_only else all_visible
        if self.acquired is not None:
            visibilities = acquired_only(self.acquired)
        since = self.next_offset if self.next_offset >= 0 else self.offset
        cut_apart = partial(_cut_apart, data)
        found, is_damaged = (yield Work(cut_apart)) if _may_have_many(data) else cut_apart()
        if self._first is None:
            self._first = memoryview(data).obj
            if found:
                self.log = replace(self.log, held={}, window=self._window(offsets_of(found[0])[0]))
        try:
            for batch, visibility in visibilities(found):
                yield TURN
                try:
                    yield from self._feed_batch(batch, visibility)
                except TimeoutError:  # of a thread
                    self._cut(max(offsets_of(batch)[0], self.offset))
                if self.cut_at is not None:
                    return
                self.next_offset = offsets_of(batch)[1] + 1
        finally:
            self.log.index.keep(self.log.window)
            if found and self.acquired is None:
                end = self.next_offset if self.cut_at is None else self.cut_at
                self.log.report.seen(since or offsets_of(found[0])[0], end)
        if is_damaged:
            self._withhold(max(self.next_offset, self.offset), is_too_large=False)

    def _window(self, first: int) -> Window:
        """What was seen before these records: by who has got what is before them, also if that is in the same batch."""
        index, look_back = self.log.index, self.log.settings.look_back
        if self.offset > first:
            window = index.window(self.offset, look_back)
            if window is not None and window.unread(max(first, window.first), self.offset) is None:
                return window
        start = min(first, self.next_offset) if self.next_offset >= 0 else first
        return index.window(start, look_back) or Window(start, look_back)

    def records(self, with_marker: bool) -> Buffer | None:
        """What the client gets; None: what came."""
        pieces = self.pieces(with_marker)
        return join(pieces) if pieces is not None else None

    def pieces(self, with_marker: bool, with_aborted: bool = False) -> tuple[Buffer, ...] | None:
        """As `records`, in pieces that follow each other.

        ``with_aborted``: also the messages of aborted transactions, as they came. They are hidden from a client that
        reads committed records only, because not all such clients skip them themselves (kafka-go).
        """
        if not self.is_changed:
            return None
        out, hidden = [*self._out], self.hidden
        if with_aborted:
            for at, data in reversed(self._aborted):
                out.insert(at, data)
        if with_marker and hidden is not None and self._like is not None:
            out.append(build_commit_marker(self._like, hidden[0], hidden[1] - 1))
        return tuple(out)

    @property
    def has_aborted(self) -> bool:
        """Whether messages of aborted transactions are hidden."""
        return bool(self._aborted)

    @property
    def hidden(self) -> tuple[int, int] | None:
        """The hidden offsets that are last: the first one, and the one after them."""
        end = self.next_offset if self.cut_at is None else self.cut_at
        if self._hidden_from is None or not 0 <= self._hidden_from < end <= MAX_OFFSET:
            return None
        return self._hidden_from, end

    @property
    def error_code(self) -> int | None:
        """Of this partition, in place of the broker's: where the client gets nothing else that carries it on."""
        return self._error_code if not self._out and self.hidden is None else None

    def _feed_batch(self, batch: Batch, visibility: Visibility) -> Steps[None]:
        last = offsets_of(batch)[1]
        window = self.log.window
        parts: dict[int, Part | Damaged] = {}
        if visibility in {SHOWN, Visibility.SKIPPED}:
            try:
                records, parts = yield from self._open(batch)
            except CodecError as error:
                if visibility is SHOWN:
                    self._withhold(offsets_of(batch)[0], isinstance(error, BatchTooLargeError))
                    return
        if visibility is SHOWN and parts:
            yield from self._rewrite(batch, records, parts)
        elif visibility is SHOWN:
            self._keep(batch, is_shown=last >= self.offset)
        elif parts:
            self._hide(batch)
            if self.acquired is None:
                self._note_aborted(batch, parts)
        else:
            self._keep(batch, is_shown=visibility is Visibility.OLD)
        if self.cut_at is not None:
            return
        if self.acquired is not None and visibility is Visibility.SKIPPED:  # others have acquired its segments
            window.skip(last + 1)
        else:
            window.extend(last + 1)

    def _open(self, batch: Batch) -> Steps[tuple[Records, dict[int, Part | Damaged]]]:
        """The records of a batch, and which of them are parts."""
        limit = MAX_INLINE_COMPRESSED_BYTES if batch.header.codec else MAX_INLINE_BYTES
        if len(batch.data) <= limit and batch.header.count <= MAX_INLINE_RECORDS:
            try:
                return self.log.parts_of(batch, MAX_INLINE_BYTES)
            except BatchTooLargeError:
                pass
        opened: tuple[Records, dict[int, Part | Damaged]]
        opened = yield Work(partial(self.log.parts_of, batch, self.inflate_limit))
        return opened

    def _keep(self, batch: Batch, is_shown: bool) -> None:
        """A batch passes as it came."""
        if is_shown and not self._fits(len(batch.data)):
            self._cut(offsets_of(batch)[0])
            return
        self.has_others |= is_shown
        self._add([batch.data], is_shown)

    def _add(self, pieces: list[Buffer], is_shown: bool) -> None:
        size = sum(map(len, pieces))
        self._out += pieces
        self._size += size
        self.room.left -= size
        self._hidden_from = None
        if is_shown:
            self.has_shown = self.room.has_shown = True

    def _hide(self, batch: Batch) -> None:
        """A batch of which nothing is visible."""
        self.is_changed = True
        self._like = batch
        if self._hidden_from is None:
            self._hidden_from = max(offsets_of(batch)[0], self.offset)

    def _fits(self, size: int) -> bool:
        """Whether so many bytes may be added: in a response that has been made larger than the broker's."""
        if not self.room.has_shown:
            return True
        return not self.has_grown or (size <= self.room.left and self._size + size <= self.max_bytes)

    def _cut(self, offset: int) -> None:
        """The response ends before this offset."""
        self.cut_at = offset
        self.is_changed = True

    def _note_aborted(self, batch: Batch, parts: dict[int, Part | Damaged]) -> None:
        """They end here: no reader of committed records waits for their other segments."""
        self._aborted.append((len(self._out), batch.data))
        for part in parts.values():
            if isinstance(part, Part):
                self.log.report.was_aborted(part.offset, part.segment.message_id)

    def _withhold(self, offset: int, is_too_large: bool) -> None:
        """What begins here may be a segment: the client must not take it for a message."""
        reason, code = WITHHELD[is_too_large]
        self.log.report.withheld(offset, reason)
        self._cut(offset)
        self._error_code = code

    def _rewrite(self, batch: Batch, records: Records, parts: dict[int, Part | Damaged]) -> Steps[None]:
        """A batch with parts: what is visible of it, in batches of its own."""
        self.is_changed = True
        made = yield from self._sub_batches(offsets_of(batch)[0], records, parts)
        self._pending = 0
        if not made:
            self._hide(batch)
            return
        end = offsets_of(batch)[1] if self.cut_at is None else self.cut_at - 1
        lasts = [*(after.first - 1 for after in made[1:]), end]
        for one, until in zip(made, lasts, strict=True):
            seal = partial(one.seal, batch, until)
            is_short = len(one) <= MAX_INLINE_COMPRESSED_BYTES or one.is_sealed_fast(batch)
            try:
                pieces = seal() if is_short else (yield Work(seal))
            except TimeoutError:
                self._cut(one.first)
                return
            self._add(pieces, is_shown=True)

    def _sub_batches(self, base: int, records: Records, parts: dict[int, Part | Damaged]) -> Steps[list[SubBatch]]:
        """The visible records from the client's offset on, up to the first message that does not fit."""
        made: list[SubBatch] = []
        plain: list[Record] = []
        window = self.log.window
        for record in records:
            if record.index % RECORDS_PER_TURN == RECORDS_PER_TURN - 1:
                yield TURN
            part, offset = parts.get(record.index), base + record.offset_delta
            is_wanted, whole = offset >= self.offset, None
            if is_wanted and part is None:
                plain.append(record)
                self.has_others = True
                self._pending += record.edges()[-1] - record.edges()[0]
            elif is_wanted and part is not None:
                window.extend(offset)
                whole = yield from self._message(records, record, part)
                if self.cut_at is not None:
                    break
            if isinstance(part, Part):
                self._note(part, is_delivered=whole is not None)
            if whole is not None:
                if plain:
                    made.append((yield from _copy(base, records, plain)))
                    plain = []
                made.append(SubBatch(offset, whole.pieces, 1, whole.pieces_crc))
                self._pending += len(whole)
        if plain:
            made.append((yield from _copy(base, records, plain)))
        return made

    def _note(self, part: Part, is_delivered: bool) -> None:
        """A part that those which follow may need."""
        payload = part.segment.payload
        self.log.keep(part, isinstance(payload, memoryview) and payload.obj is self._first)
        self.log.window.add(part, is_delivered)
        self._last_part = part

    def _message(self, records: Records, record: Record, part: Part | Damaged) -> Steps[Assembly | None]:
        """The message that is delivered at a record, assembled; None: there is none, or it does not fit."""
        if isinstance(part, Damaged):
            self.log.report.dropped(part.offset, DAMAGED, None)
            return None
        try:
            return (yield from self._assemble(records, record, part))
        except TimeoutError:
            self._cut(part.offset)
        except UnreadableError as error:
            self._cut(part.offset)
            self._error_code = error.error_code
        return None

    def _assemble(self, records: Records, record: Record, part: Part) -> Steps[Assembly | None]:
        log, segment = self.log, part.segment
        locations = None if part.is_carrier else (yield from find_segments(log, part))
        if locations is None and not part.is_carrier:
            log.report.hidden(part.offset, segment.message_id)
            return None
        if part.is_carrier and log.window.has_delivered(segment):
            log.report.dropped(part.offset, COPY, segment.message_id)
            return None
        if segment.size > log.settings.max_message:
            self._drop(part, TOO_LARGE.reason)
            return None
        if not self._has_room(segment.size):
            self._cut(part.offset)
            return None
        place = log.place(part.offset)
        assembly = self.unfinished.take(place)
        if assembly is None or assembly.segment != segment:
            headers = delivered_headers(record, part, log.settings.deliver_headers)
            assembly = begin_assembly(records, record, part, headers)
        self.room.reserve(segment.size)
        try:
            start = yield from assemble(log, part, assembly, locations)
        except TimeoutError:
            self.unfinished.put(place, assembly)
            raise
        if isinstance(start, Missing):
            self._drop(part, start.reason)
            return None
        self.has_grown = True
        self.large.append((part.offset, segment.count if part.reference is None else 0))
        log.report.assembled(segment.message_id, start, part.offset, segment.size)
        return assembly

    @property
    def bytes_to_carrier(self) -> int:
        """How much is probably to be read up to the record that completes the message which was seen last."""
        last = self._last_part
        if last is None:
            return UNKNOWN_BYTES
        segment = last.segment
        left = segment.count - 1 - segment.number
        payload = min(left * len(segment.payload), max(segment.size - (segment.number + 1) * len(segment.payload), 0))
        return payload + left * SLICE_OVERHEAD_BYTES + UNKNOWN_BYTES

    @property
    def has_large_alone(self) -> bool:
        """Whether large messages, and nothing else, are visible."""
        return self.has_grown and not self.has_others

    def end_of_message(self, data: bytes | memoryview) -> int | None:
        """The offset after a large message if it is all that is visible, and ``data`` are the rest of it; else None."""
        last = self._last_part
        if last is None or self.has_others or self.has_grown:
            return None
        end = last.offset + last.segment.count - last.segment.number
        rest, _ = _cut_apart(data)
        return end if rest and offsets_of(rest[-1])[1] + 1 == end else None

    @property
    def bytes_to_next(self) -> int:
        """How much the next message takes without its first segment, if it is like the last one; or the rest of it."""
        last = self._last_part
        if last is None or (self.has_grown and last.segment.number + 1 < last.segment.count):
            return self.bytes_to_carrier
        segment = last.segment
        others = segment.count - 1
        return segment.size * others // segment.count + others * SLICE_OVERHEAD_BYTES + UNKNOWN_BYTES

    def _has_room(self, size: int) -> bool:
        """Whether a message of this size may be added, and not be first in a later response instead."""
        if not self.room.has_shown and not self._pending:
            return True
        size += self._pending
        return size + RECORD_BYTES <= self.room.left and self._size + size <= self.max_bytes

    def _drop(self, part: Part, reason: str) -> None:
        """A message cannot be assembled, now or later."""
        self.log.report.dropped(part.offset, reason, part.segment.message_id)
        if self.log.settings.on_missing == "fail":
            self._cut(part.offset)
            self._error_code = ErrorCode.CORRUPT_MESSAGE


def _copy(base: int, records: Records, some: Sequence[Record]) -> Steps[SubBatch]:
    """A sub-batch of records that are no parts; of many of them in a thread."""
    copy = partial(copy_records, base, records, some)
    return copy() if len(some) <= MAX_INLINE_RECORDS else (yield Work(copy))


def _may_have_many(data: bytes | memoryview) -> bool:
    """Whether there may be so many batches that it takes long to cut them apart."""
    first = int.from_bytes(data[LENGTH_AT:LENGTH_FROM], "big")
    return len(data) > MAX_INLINE_BYTES and first < len(data) // MAX_INLINE_RECORDS


def _cut_apart(data: bytes | memoryview) -> tuple[list[Batch], bool]:
    """The batches, up to the first one that is damaged so that its end is not known; and whether there is one."""
    try:
        return batches(data, may_end_early=True), False
    except CodecError:
        pass
    view, found, at = memoryview(data), list[Batch](), 0
    while at < len(view):
        end = at + LENGTH_FROM + max(int.from_bytes(view[at + LENGTH_AT : at + LENGTH_FROM], "big", signed=True), 0)
        try:
            found += batches(view[at:end])
        except CodecError:
            break
        at = end
    return found, True
