"""Which records of a batch are parts of large messages, and what they say about them.

A carrier has back-pointers (`_lmr`) to its slices. Segments of li-apache-kafka-clients have none: whichever of them
comes last completes the message. A slice without a key never does: li gives every segment a key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from hashlib import sha256

from crc32c import crc32c

from kafka_sidecar.codec.crc_parts import without_end, without_start
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.records import LoneRecord, Record, Records
from kafka_sidecar.large_messages import back_pointers, lm_header, object_reference, payload_format
from kafka_sidecar.large_messages.back_pointers import BackPointers
from kafka_sidecar.large_messages.lm_header import LmHeader
from kafka_sidecar.large_messages.object_reference import ObjectReference
from kafka_sidecar.large_messages.segment import ID_SIZE, Segment
from kafka_sidecar.large_messages.serializers import DefaultSegmentDeserializer, SegmentDeserializer
from kafka_sidecar.large_messages.settings import MAX_SEGMENTS

LARGEST_POSITIVE_BYTE = 0x7F
MIN_VIEW_BYTES = 64 << 10  # from this size on a view is cheaper than a copy


@dataclass(frozen=True, slots=True)
class Part:
    """A record that is a segment of a large message."""

    offset: int
    segment: Segment
    header: LmHeader | None  # as it is stored
    is_carrier: bool  # whether it has back-pointers, readable or not
    pointers: BackPointers | None
    has_key: bool
    reference: ObjectReference | None = None  # to the object that is the whole value

    @property
    def may_complete(self) -> bool:
        """Whether the message may be delivered at this record."""
        return self.is_carrier or self.has_key or self.segment.count == 1


@dataclass(frozen=True, slots=True)
class Damaged:
    """A record that says that it is a segment, and cannot be one."""

    offset: int
    reason: str


class Reader:
    """Finds the parts among the records of one topic."""

    def __init__(self, topic: str, deserializer: SegmentDeserializer, reads_objects: bool = False) -> None:
        self._topic = topic
        self._reads_objects = reads_objects
        self._deserializer = deserializer
        self._is_default = type(deserializer) is DefaultSegmentDeserializer

    def parts(self, base_offset: int, records: Records, crc: int | None = None) -> dict[int, Part | Damaged]:
        """By index in the batch. Records that are no parts are not in the result.

        ``crc``: of all records together, if it is known.
        """
        found = self._references(base_offset, records)
        plain = records.missing_header(lm_header.KEY)
        if len(plain) < len(records):
            missing = set(plain)
            for record in records:
                if record.index in missing or record.index in found:
                    continue
                payload = partial(_payload, records, record, crc)
                if (part := self._headed(base_offset, record, payload)) is not None:
                    found[record.index] = part
        for record in self._candidates(records):
            if record.index not in found and (part := self._unheaded(base_offset, record)) is not None:
                found[record.index] = part
        return found

    def _references(self, base_offset: int, records: Records) -> dict[int, Part | Damaged]:
        """The records whose values are objects."""
        found: dict[int, Part | Damaged] = {}
        if not self._reads_objects or object_reference.KEY not in records.payload:
            return found
        for record in records:
            if (header := record.header(object_reference.KEY)) is None:
                continue
            offset = base_offset + record.offset_delta
            try:
                reference = ObjectReference.decode(header.value, self._topic)
            except CodecError as error:
                found[record.index] = Damaged(offset, str(error))
                continue
            message_id = sha256(reference.key.encode()).digest()[:ID_SIZE]
            segment = Segment(message_id, 0, 1, reference.size, b"")
            found[record.index] = Part(offset, segment, None, False, None, record.key_size >= 0, reference)
        return found

    def part_of(self, base_offset: int, lone: LoneRecord, crc: int | None) -> Part | Damaged | None:
        """As `parts`, of a batch's only record; None: its value has to be read."""
        record = lone.records[0]
        if self._reads_objects or record.header(lm_header.KEY) is None:
            return None
        return self._headed(base_offset, record, partial(_lone_payload, lone, crc))

    def _headed(
        self, base_offset: int, record: Record, read: Callable[[], tuple[bytes | memoryview, int | None]]
    ) -> Part | Damaged | None:
        """What a record with the header `_lm` is; None: the value has to say.

        ``read``: its payload, with the checksum if it is known.
        """
        offset = base_offset + record.offset_delta
        found = record.header(lm_header.KEY)
        try:
            header = LmHeader.decode(found.value if found is not None else None)
        except CodecError as error:
            return Damaged(offset, str(error))
        if header.is_delivered or header.type != lm_header.V3:
            return None
        segment = Segment(header.message_id, header.number, header.count, header.size, *read())
        return _part(offset, record, segment, header)

    def _candidates(self, records: Records) -> Iterator[Record]:
        """The records whose value may be a segment."""
        if not self._is_default:
            yield from records
            return
        for record in records:
            if record.value_size >= payload_format.OVERHEAD:
                first = record.value_prefix(1)
                if first == b"\0" or (first and first[0] > LARGEST_POSITIVE_BYTE):
                    yield record

    def _unheaded(self, base_offset: int, record: Record) -> Part | Damaged | None:
        """What the value says that a record is."""
        value = record.value
        if value is None:
            return None
        try:
            segment = self._deserializer.deserialize(self._topic, value)
        except Exception:  # noqa: BLE001 - of a plug-in: the value is delivered as it is
            return None
        if segment is None:
            return None
        stored = record.header(lm_header.KEY)
        try:
            header = LmHeader.decode(stored.value) if stored is not None else None
        except CodecError:
            header = None
        return _part(base_offset + record.offset_delta, record, segment, header)


def _payload(records: Records, record: Record, crc: int | None) -> tuple[bytes | memoryview, int | None]:
    """The value of a record, without a copy if it is large, and most of what a view keeps in memory; its checksum.

    ``crc``: of all records. The checksum is None if that is, or if reading the value takes no longer.
    """
    size, data = record.value_size, memoryview(records.payload)
    if size < max(MIN_VIEW_BYTES, len(data) // 2):
        return record.value or b"", None
    end = record.edges()[-2]  # where the headers begin
    start = end - size
    if crc is None or len(data) - size > MIN_VIEW_BYTES:
        return data[start:end], None
    return data[start:end], _crc_between(data[:start], data[end:], crc, size)


def _lone_payload(lone: LoneRecord, crc: int | None) -> tuple[memoryview, int | None]:
    return lone.value, _crc_between(lone.before, lone.after, crc, len(lone.value)) if crc is not None else None


def _crc_between(before: memoryview, after: memoryview, crc: int, size: int) -> int:
    """The checksum of so many bytes between others, from that of all."""
    return without_start(without_end(crc, crc32c(after), len(after)), crc32c(before), size)


def _part(offset: int, record: Record, segment: Segment, header: LmHeader | None) -> Part | Damaged:
    try:
        segment.check()
    except CodecError as error:
        return Damaged(offset, str(error))
    if segment.count > MAX_SEGMENTS:
        return Damaged(offset, f"a message of {segment.count} segments, at most {MAX_SEGMENTS} are read")
    stored = record.header(back_pointers.KEY)
    pointers = None
    if stored is not None:
        try:
            pointers = BackPointers.decode(stored.value, MAX_SEGMENTS)
        except CodecError:
            pointers = None
        if pointers is not None and not _fits(pointers, segment):
            pointers = None
    has_key = record.key_size >= 0
    return Part(offset, segment, header, stored is not None, pointers, has_key)


def _fits(pointers: BackPointers, segment: Segment) -> bool:
    """Whether they can be those of the carrier that has this segment: to all others."""
    offsets = pointers.offsets
    return segment.number == segment.count - 1 == len(offsets) and len(set(offsets)) == len(offsets)
