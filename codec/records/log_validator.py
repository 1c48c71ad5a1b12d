"""Batches that brokers reject whatever is in them: checked here too, because what cannot be read cannot be validated.

The codes are those of Kafka's LogValidator and UnifiedLog; tests/integration compares them with a broker's.
"""

from __future__ import annotations

from dataclasses import dataclass

from kafka_sidecar.codec.apis import ErrorCode
from kafka_sidecar.codec.batch_layout import BATCH_HEADER_SIZE, NEWEST_MAGIC
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.records.batch import Batch, batches
from kafka_sidecar.codec.records.compression import Codec, DecompressionError

_LAST_CODEC = int(Codec.ZSTD)  # compared with each batch
MAX_VARINT_SHIFT = 35  # a varint has five bytes at most


@dataclass(frozen=True, slots=True)
class InvalidBatch:
    """Why a broker would reject the records of a partition, and with which error."""

    error_code: int
    message: str  # for the client; quotes no contents


def cut_single_batch(
    records: bytes | memoryview | None, old_format: int = ErrorCode.INVALID_RECORD
) -> Batch | InvalidBatch:
    """The one batch of format 2 that a partition of a Produce request consists of.

    ``old_format``: the error of records in formats 0 and 1, which Produce has not had since version 3.
    """
    try:
        found = batches(records or b"", may_end_early=True)  # a broker ignores what is not a whole batch, too
    except CodecError as error:
        return InvalidBatch(ErrorCode.CORRUPT_MESSAGE, f"not a record batch: {error}")
    if found and found[0].magic != NEWEST_MAGIC:
        return InvalidBatch(old_format, f"records of format {found[0].magic} where format 2 is needed")
    if len(found) != 1:
        return InvalidBatch(ErrorCode.INVALID_RECORD, f"{len(found)} record batches in place of exactly one")
    batch = found[0]
    if batch.header.codec > _LAST_CODEC:
        no_codec = InvalidBatch(ErrorCode.UNKNOWN_SERVER_ERROR, f"unknown compression codec {batch.header.codec}")
        return find_fault(batch) or no_codec
    return batch


def find_fault(batch: Batch) -> InvalidBatch | None:
    """What is wrong with the batch's header, in the order in which a broker looks."""
    header = batch.header
    if not batch.crc_is_right():
        return InvalidBatch(ErrorCode.CORRUPT_MESSAGE, "the batch's checksum is wrong")
    if header.count != header.last_offset_delta + 1 or header.count <= 0:
        return InvalidBatch(
            ErrorCode.INVALID_RECORD, f"{header.count} records announced, {header.last_offset_delta + 1} offsets"
        )
    if header.is_control:
        return InvalidBatch(ErrorCode.INVALID_RECORD, "clients may not write control batches")
    if header.producer_id >= 0 and header.base_sequence < 0:
        return InvalidBatch(ErrorCode.INVALID_RECORD, "a producer id without a sequence number")
    return None


def explain_unreadable(batch: Batch, error: CodecError) -> InvalidBatch:
    """A batch whose header is right and whose records cannot be read."""
    # What a broker does not foresee it calls a failure of its own.
    unforeseen = isinstance(error, DecompressionError) or (
        batch.header.codec == Codec.NONE and _has_endless_length(batch)
    )
    code = ErrorCode.UNKNOWN_SERVER_ERROR if unforeseen else ErrorCode.INVALID_RECORD
    return InvalidBatch(code, f"the records cannot be read: {error}")


def _has_endless_length(batch: Batch) -> bool:
    """Whether the length of some record has more than the five bytes that a varint may have."""
    payload = batch.data[BATCH_HEADER_SIZE:]
    at = 0
    while at < len(payload):
        raw = shift = 0
        while payload[at] > 127:
            raw, shift, at = raw | (payload[at] & 127) << shift, shift + 7, at + 1
            if shift >= MAX_VARINT_SHIFT:
                return True
            if at == len(payload):
                return False
        raw |= payload[at] << shift
        if raw & 1:
            return False
        at += 1 + (raw >> 1)
    return False
