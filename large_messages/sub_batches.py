"""A fetched batch with large messages, written again: each assembled message as a batch of its own.

    batch:        small  slice  carrier  small  small  carrier  slice
    sub-batches:  [small.......][whole..][small  small][whole........]

Producer id, epoch and attributes stay those of the batch. Each sub-batch begins at its first record and ends where the
next one begins, the last one where the batch ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct

from crc32c import crc32c

from kafka_sidecar.codec.batch_layout import ATTRIBUTES_AT, CRC_AT, HEADER, LENGTH_FROM
from kafka_sidecar.codec.crc_parts import joined
from kafka_sidecar.codec.large_bytes import join
from kafka_sidecar.codec.message import Buffer
from kafka_sidecar.codec.records import (
    BATCH_HEADER_SIZE,
    Batch,
    Header,
    Record,
    Records,
    encode_headers,
    encode_varint,
)
from kafka_sidecar.codec.records.compression import compress
from kafka_sidecar.large_messages import back_pointers, lm_header, object_reference
from kafka_sidecar.large_messages.assembly import Assembly, checksum
from kafka_sidecar.large_messages.classify import Part
from kafka_sidecar.large_messages.segment import ID_SIZE

NO_SEQUENCE, MAX_SEQUENCE = -1, 2**31 - 1
NULL_KEY = encode_varint(-1)
_UINT32 = Struct(">I")


class SubBatch:
    """Records of one batch, from the offset ``first`` on; `seal` makes a batch of them."""

    __slots__ = ("_count", "_crc", "_records", "first")

    def __init__(self, first: int, records: list[Buffer], count: int, crc: int | None = None) -> None:
        """
        Args:
            first: the first record's offset, to which the offset deltas are relative.
            records: in pieces that follow each other.
            count: of the records.
            crc: CRC-32C of the records, if it is known.
        """
        self.first = first
        self._records = records
        self._count = count
        self._crc = crc

    def __len__(self) -> int:
        """Bytes, without compression."""
        return BATCH_HEADER_SIZE + sum(map(len, self._records))

    def is_sealed_fast(self, batch: Batch) -> bool:
        """Whether `seal` need not read the records."""
        return self._crc is not None and not batch.header.codec

    def seal(self, batch: Batch, last: int) -> list[Buffer]:
        """The batch, which ends at the offset ``last``; the header's other fields are those of the broker's batch.

        In pieces that follow each other: where nothing is compressed the records stay where they are.
        """
        old = batch.header
        sequence = old.base_sequence
        if sequence != NO_SEQUENCE:
            sequence = (sequence + self.first - old.base_offset) & MAX_SEQUENCE
        records = self._records
        if old.codec:
            records = [compress(old.codec, join(records), batch.data[BATCH_HEADER_SIZE:])]
        header = bytearray(
            HEADER.pack(
                self.first, BATCH_HEADER_SIZE - LENGTH_FROM + sum(map(len, records)), old.leader_epoch, old.magic, 0,
                old.attributes, last - self.first, old.base_timestamp, old.max_timestamp, old.producer_id,
                old.producer_epoch, sequence, self._count,
            )
        )  # fmt: skip
        crc = crc32c(header[ATTRIBUTES_AT:])
        if self._crc is not None and not old.codec:
            crc = joined(crc, self._crc, sum(map(len, records)))
        else:
            crc = checksum(records, crc)
        _UINT32.pack_into(header, CRC_AT, crc)
        return [bytes(header), *records]


def copy_records(base_offset: int, records: Records, some: Sequence[Record]) -> SubBatch:
    """A sub-batch of records that are no parts of large messages."""
    data, first = records.payload, some[0].offset_delta
    written = bytearray()
    for record in some:
        _, start, keys_at, _, _, end = record.edges()
        body = b"".join((data[start : start + 1], encode_varint(record.timestamp_delta),
                         encode_varint(record.offset_delta - first), data[keys_at:end]))  # fmt: skip
        written += encode_varint(len(body)) + body
    return SubBatch(base_offset + first, [bytes(written)], len(some))


def begin_assembly(records: Records, record: Record, part: Part, headers: Sequence[Header]) -> Assembly:
    """The record that will have the whole value, in a batch of its own. `SubBatch` takes the assembly's pieces."""
    data, segment = records.payload, part.segment
    _, start, keys_at, values_at, _, _ = record.edges()
    key = data[keys_at:values_at]
    if key[1:] == segment.message_id and len(key) == 1 + ID_SIZE:  # li's, in place of a null key
        key = NULL_KEY
    begins = b"".join((data[start : start + 1], encode_varint(record.timestamp_delta), encode_varint(0), key,
                       encode_varint(segment.size)))  # fmt: skip
    ends = encode_headers(headers)
    length = encode_varint(len(begins) + segment.size + len(ends))
    says = part.reference or part.pointers
    crc = says.crc if says is not None else None
    return Assembly(segment, crc, length + begins, ends)


def delivered_headers(record: Record, part: Part, is_shown: bool) -> tuple[Header, ...]:
    """The headers of an assembled message: without ours, and if ``is_shown`` with `_lm` as li delivers it."""
    ours = (lm_header.KEY, back_pointers.KEY, object_reference.KEY)
    kept = tuple([header for header in record.headers if header.key_bytes not in ours])
    if not is_shown or part.header is None:
        return kept
    return (*kept, Header(lm_header.KEY, part.header.as_delivered().encode()))
