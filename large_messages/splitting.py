"""Splits a batch that is larger than its topic allows: slices of its largest values, and the batch that carries them.

The carrier batch is the client's own one, and all of its header but length and checksum stays: sequence numbers,
offsets and transactions are those of the client, whatever becomes of the slices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from heapq import nlargest
from struct import Struct

from crc32c import crc32c

from kafka_sidecar.codec.apis import ErrorCode
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.records import BATCH_HEADER_SIZE, Batch, Change, Header, Record, Records, edit_records, reseal
from kafka_sidecar.large_messages import back_pointers, lm_header
from kafka_sidecar.large_messages.back_pointers import BackPointers
from kafka_sidecar.large_messages.cutting import CARRIED_BYTES, MARGIN_BYTES, Cut, CutError, Parts, SliceForm, cut
from kafka_sidecar.large_messages.lm_header import LmHeader
from kafka_sidecar.large_messages.segment import ID_SIZE
from kafka_sidecar.large_messages.settings import TopicSettings

MIN_VALUE_BYTES = 256  # smaller values are not worth two headers and a batch
MAX_SPLIT_RECORDS = 1000  # of one batch
POINTER_BYTES = 3  # of each, assumed before the slices are stored
HEADERS_BYTES = 96  # of a carrier, without its pointers
MAX_SEQUENCE = (1 << 31) - 1
MAX_GROWTH = 512  # what cannot be compressed grows by less than a part of so many
OF_RECORD = Struct(">iqhiqIiI")  # partition, producer id and epoch, sequence, timestamp, crc, segments, largest batch


class RefusedError(Exception):
    """A batch is not written, and splitting it is no way out."""

    def __init__(self, error_code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.error_code = error_code  # Kafka's
        self.reason = reason  # a label value of metrics


@dataclass(frozen=True, slots=True)
class Target:
    """Where a batch goes, and what is allowed there."""

    topic: str
    topic_id: bytes  # zeros: not known
    partition: int
    max_batch: int  # bytes
    is_compacted: bool
    settings: TopicSettings
    random: Callable[[int], bytes]
    codec: int | None = None  # in which the broker stores every batch; None: in the producer's
    sender: bytes = b""  # of the batch; what it sends again it has sent before
    random_of: Callable[[bytes], bytes | None] = lambda mark: None  # with which an attempt before was made

    @property
    def max_slice(self) -> int:
        return min(self.settings.segment or self.max_batch, self.max_batch)

    def size_in_log(self, codec: int, sent: int, inflated: int) -> int:
        """Bytes at most that the topic's limit is compared with: of a batch as it is sent, and as the broker stores it.

        A broker that compresses a batch again may need as much as it has without compression, and a little more.
        """
        if self.codec is None or self.codec == codec:
            return sent
        whole = BATCH_HEADER_SIZE + inflated
        return max(sent, whole + whole // MAX_GROWTH + MARGIN_BYTES if self.codec else whole)


@dataclass(frozen=True, slots=True)
class LargeValue:
    """A record whose value is stored in slices."""

    index: int  # of the record
    last: bytes  # of the value
    crc: int  # CRC-32C of the value
    mark: bytes  # by which it is recognised if it is sent again
    random: bytes  # of which its id is made, where that is random
    cut: Cut


@dataclass(frozen=True, slots=True)
class Split:
    """A batch whose slices are built."""

    batch: Batch
    records: Records
    values: tuple[LargeValue, ...]  # by index
    target: Target

    @property
    def slices(self) -> list[Parts]:
        """Of all values; to be stored before the carrier."""
        return [one for value in self.values for one in value.cut.slices]

    def carrier(self, offsets: Sequence[int]) -> bytes:
        """The client's batch, for slices at these offsets."""
        at, pointers = 0, list[tuple[int, ...]]()
        for value in self.values:
            pointers.append(tuple(offsets[at : at + len(value.cut.slices)]))
            at += len(value.cut.slices)
        return reseal(self.batch, _carried(self.records, self.values, pointers, self.target))


def split(batch: Batch, records: Records, target: Target) -> Split:
    """Split a batch that is larger than ``target.max_batch``; ``records`` are its own.

    Raises:
        RefusedError: the batch cannot be written.
        Exception: what a serializer raises.
    """
    check_values(records, target.settings.max_message)
    _check_cleanup(target)
    codec = batch.header.codec
    left = target.size_in_log(codec, len(batch.data), len(records.payload))
    # Of what is not stored as it came nothing is known before it is compressed.
    is_same = target.codec in (None, codec)
    ratio = (len(batch.data) - BATCH_HEADER_SIZE) / max(1, len(records.payload)) if is_same else 1.0
    values: dict[int, LargeValue] = {}
    for size, record in _largest(records):
        if left <= target.max_batch and _fits(batch, records, values, target):
            break
        if target.is_compacted and record.key_size < 0:
            raise RefusedError(ErrorCode.INVALID_RECORD, "no_key", "a compacted topic accepts no record without a key")
        value = _cut(batch, records, record, target, ratio)
        values[record.index] = value
        left += HEADERS_BYTES + POINTER_BYTES * len(value.cut.slices) - int(size * ratio)
    else:
        if not _fits(batch, records, values, target):
            raise RefusedError(
                ErrorCode.MESSAGE_TOO_LARGE, "small_values",
                f"the batch has {len(batch.data)} bytes, the topic allows {target.max_batch}, and it would be larger "
                f"even without its {len(values)} largest values: lower the batch size of the producer",
            )  # fmt: skip
    return Split(batch, records, tuple(values[index] for index in sorted(values)), target)


def strip_delivered(records: Records) -> Records:
    """The records without the headers `_lm` of messages that were assembled before; themselves if there is none."""
    if len(records.missing_header(lm_header.KEY)) == len(records):
        return records
    changes = [
        (record, Change(headers=[header for header in record.headers if not _is_delivered(header)]))
        for record in records
        if any(_is_delivered(header) for header in record.headers)
    ]
    return edit_records(records, changes)


def check_values(records: Records, max_message: int) -> None:
    """Raises RefusedError for a value that no consumer would get."""
    largest = max(records.sizes()[1], default=0) if len(records.payload) > max_message else 0
    if largest > max_message:
        raise RefusedError(
            ErrorCode.MESSAGE_TOO_LARGE, "too_large",
            f"a value has {largest} bytes, more than the {max_message} of large_messages.topics: max_message",
        )  # fmt: skip


def _check_cleanup(target: Target) -> None:
    """Raises RefusedError where large messages are not accepted."""
    if target.is_compacted and target.settings.compacted == "refuse":
        raise RefusedError(
            ErrorCode.MESSAGE_TOO_LARGE, "compacted",
            f"the batch is larger than the {target.max_batch} bytes that the topic allows, and the topic is compacted: "
            f"slices need unique keys, set large_messages.topics: compacted: unique",
        )  # fmt: skip


def _largest(records: Records) -> Iterator[tuple[int, Record]]:
    """The values that may be split, the largest first. A segment of li is not split again."""
    sizes = records.sizes()[1]
    for size, index in nlargest(MAX_SPLIT_RECORDS, ((size, -index) for index, size in enumerate(sizes))):
        if size < MIN_VALUE_BYTES:
            return
        record = records[-index]
        if all(header.key_bytes != lm_header.KEY or _is_delivered(header) for header in record.headers):
            yield size, record


def _cut(batch: Batch, records: Records, record: Record, target: Target, ratio: float) -> LargeValue:
    edges = record.edges()
    value = memoryview(records.payload)[edges[4] - record.value_size : edges[4]]
    crc = crc32c(value)
    key = None
    if target.is_compacted:
        key = (record.key or b"") + target.random(ID_SIZE)  # unique for each attempt: compaction keeps the newest only
    mark = _mark(batch, record, crc, target)
    random = target.random_of(mark) or target.random(ID_SIZE)
    codec = batch.header.codec if target.codec is None else target.codec
    form = SliceForm(
        target.topic, codec, record.timestamp, key, target.settings.serializer,
        partial(_identify, batch, record, crc, target, random),
    )  # fmt: skip
    try:
        found = cut(value, form, target.max_slice, ratio)
    except CutError as error:
        raise RefusedError(ErrorCode.MESSAGE_TOO_LARGE, "slices", f"a value cannot be split: {error}") from error
    return LargeValue(record.index, bytes(value[-CARRIED_BYTES:]), crc, mark, random, found)


def _mark(batch: Batch, record: Record, crc: int, target: Target) -> bytes:
    """What a value has in common with itself when it is sent again."""
    header = batch.header
    sequence = header.base_sequence + record.offset_delta & MAX_SEQUENCE if header.producer_id >= 0 else 0
    known = OF_RECORD.pack(
        target.partition, header.producer_id, header.producer_epoch, sequence, record.timestamp, crc,
        record.value_size, 0,
    )  # fmt: skip
    parts = (target.sender, target.topic_id, target.topic.encode(), known, record.key or b"")
    return sha256(b"".join([sha256(part).digest() for part in parts])).digest()[:ID_SIZE]


def _identify(batch: Batch, record: Record, crc: int, target: Target, random: bytes, count: int) -> bytes:
    """The id of the message: the same if an idempotent producer sends the batch again, so that slices which are stored
    twice are the same slices; another one if they are cut in another way.
    """
    header = batch.header
    if header.producer_id < 0:
        return random
    sequence = header.base_sequence + record.offset_delta & MAX_SEQUENCE
    known = OF_RECORD.pack(
        target.partition, header.producer_id, header.producer_epoch, sequence, record.timestamp, crc, count,
        target.max_slice,
    )  # fmt: skip
    return sha256(target.topic_id + target.topic.encode() + known).digest()[:ID_SIZE]


def _fits(batch: Batch, records: Records, values: dict[int, LargeValue], target: Target) -> bool:
    """Whether the carrier of these values is small enough, wherever their slices will be."""
    step = 1 << 7 * POINTER_BYTES - 2
    chosen = [values[index] for index in sorted(values)]
    pointers = [tuple(range(1 << 40, (1 << 40) + len(one.cut.slices) * step, step)) for one in chosen]
    carried = _carried(records, chosen, pointers, target)
    sent = len(reseal(batch, carried))
    return target.size_in_log(batch.header.codec, sent, len(carried.payload)) <= target.max_batch


def _carried(
    records: Records, values: Sequence[LargeValue], offsets: Sequence[tuple[int, ...]], target: Target
) -> Records:
    """The records of the carrier."""
    changes = [
        (record := records[value.index], _carry(record, value, pointed, target))
        for value, pointed in zip(values, offsets, strict=True)
    ]
    return edit_records(records, changes)


def _carry(record: Record, value: LargeValue, offsets: tuple[int, ...], target: Target) -> Change:
    """What the client's record becomes."""
    pointers = BackPointers(target.topic_id, value.crc, offsets)
    header, serializer = value.cut.header, target.settings.serializer
    headers = [one for one in record.headers if one.key_bytes not in (lm_header.KEY, back_pointers.KEY)]
    headers += (Header(lm_header.KEY, header.encode()), Header(back_pointers.KEY, pointers.encode()))
    last: bytes | memoryview = value.last
    if serializer is not None:
        last = serializer.serialize(target.topic, header.segment(value.last))
    return Change(value=bytes(last), headers=headers)


def _is_delivered(header: Header) -> bool:
    if header.key_bytes != lm_header.KEY:
        return False
    try:
        return LmHeader.decode(header.value).is_delivered
    except CodecError:
        return False
