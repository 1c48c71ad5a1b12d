"""Batches that brokers refuse whatever is in them: judged here too, because what cannot be read cannot be validated.

The codes are those of Kafka's LogValidator and UnifiedLog; tests/integration compares them with a broker's.
"""

from __future__ import annotations

from kafka_sidecar.codec.apis import ErrorCode
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.records import Batch, Codec, DecompressionError, batches
from kafka_sidecar.proxy.exchanges.produce_response import Refused

HEADER_SIZE = 61


def only_batch(records: bytes | memoryview | None) -> Batch | Refused:
    """The one batch of format 2 that a partition of a Produce request consists of."""
    try:
        found = batches(records or b"", may_end_early=True)  # a broker leaves out what is not a whole batch, too
    except CodecError as error:
        return Refused(ErrorCode.CORRUPT_MESSAGE, f"not a record batch: {error}")
    if len(found) != 1:
        return Refused(ErrorCode.INVALID_RECORD, f"{len(found)} record batches in place of exactly one")
    batch = found[0]
    if batch.magic != 2:
        return Refused(ErrorCode.INVALID_RECORD, f"records of format {batch.magic} where format 2 is needed")
    if batch.header.codec > Codec.ZSTD:
        no_codec = Refused(ErrorCode.UNKNOWN_SERVER_ERROR, f"there is no compression codec {batch.header.codec}")
        return fault_of(batch) or no_codec
    return batch


def fault_of(batch: Batch) -> Refused | None:
    """What is wrong with the batch's header, in the order in which a broker looks."""
    header = batch.header
    if not batch.crc_is_right():
        return Refused(ErrorCode.CORRUPT_MESSAGE, "the batch's checksum is wrong")
    if header.count != header.last_offset_delta + 1 or header.count <= 0:
        return Refused(
            ErrorCode.INVALID_RECORD, f"{header.count} records announced, {header.last_offset_delta + 1} offsets"
        )
    if header.is_control:
        return Refused(ErrorCode.INVALID_RECORD, "clients may not write control batches")
    if header.producer_id >= 0 and header.base_sequence < 0:
        return Refused(ErrorCode.INVALID_RECORD, "a producer id without a sequence number")
    return None


def unreadable(batch: Batch, error: CodecError) -> Refused:
    """A batch whose header is right and whose records cannot be read."""
    # What a broker does not foresee it calls a failure of its own.
    unforeseen = isinstance(error, DecompressionError) or (
        batch.header.codec == Codec.NONE and _has_endless_length(batch)
    )
    code = ErrorCode.UNKNOWN_SERVER_ERROR if unforeseen else ErrorCode.INVALID_RECORD
    return Refused(code, f"the records cannot be read: {error}")


def _has_endless_length(batch: Batch) -> bool:
    """Whether the length of some record has more than the five bytes that a varint may have."""
    payload = batch.data[HEADER_SIZE:]
    at = 0
    while at < len(payload):
        raw = shift = 0
        while payload[at] > 127:
            raw, shift, at = raw | (payload[at] & 127) << shift, shift + 7, at + 1
            if shift >= 35:
                return True
            if at == len(payload):
                return False
        raw |= payload[at] << shift
        if raw & 1:
            return False
        at += 1 + (raw >> 1)
    return False
