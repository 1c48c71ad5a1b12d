"""Which records of a batch are parts of large messages, and what they say about them.

A carrier has back-pointers (`_lmr`) to its slices. Segments of li-apache-kafka-clients have none: whichever of them
comes last completes the message. A slice without a key never does: li gives every segment a key.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256

from crc32c import crc32c

from kafka_sidecar.codec.crc_parts import without_end, without_start
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.records import Record, Records
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
                if (part := self._headed(base_offset, records, record, crc)) is not None:
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

    def _headed(self, base_offset: int, records: Records, record: Record, crc: int | None) -> Part | Damaged | None:
        """What a record with the header `_lm` is; None: the value has to say."""
        offset = base_offset + record.offset_delta
        found = record.header(lm_header.KEY)
        try:
            header = LmHeader.decode(found.value if found is not None else None)
        except CodecError as error:
            return Damaged(offset, str(error))
        if header.is_delivered or header.type != lm_header.V3:
            return None
        payload = _value(records, record)
        value_crc = _value_crc(records, record, crc) if crc is not None and isinstance(payload, memoryview) else None
        segment = Segment(header.message_id, header.number, header.count, header.size, payload, value_crc)
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


def _value(records: Records, record: Record) -> bytes | memoryview:
    """The value of a record, without a copy if it is large, and most of what a view keeps in memory."""
    size = record.value_size
    if size < max(MIN_VIEW_BYTES, len(records.payload) // 2):
        return record.value or b""
    end = record.edges()[-2]  # where the headers begin
    return memoryview(records.payload)[end - size : end]


def _value_crc(records: Records, record: Record, crc: int) -> int | None:
    """The checksum of a value, from that of all records; None: reading the value takes no longer."""
    end = record.edges()[-2]
    start = end - record.value_size
    others = records.payload[:start], records.payload[end:]
    if sum(map(len, others)) > MIN_VIEW_BYTES:
        return None
    before, after = map(crc32c, others)
    return without_start(without_end(crc, after, len(others[1])), before, end - start)


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
        if pointers is not None and not _fits(pointers, segment, offset):
            pointers = None
    has_key = record.key_size >= 0
    return Part(offset, segment, header, stored is not None, pointers, has_key)


def _fits(pointers: BackPointers, segment: Segment, offset: int) -> bool:
    """Whether they can be those of the carrier at this offset: to all other segments, which were written before it."""
    offsets = pointers.offsets
    return (
        segment.number == segment.count - 1 == len(offsets)
        and len(set(offsets)) == len(offsets)
        and all(one < offset for one in offsets)
    )
