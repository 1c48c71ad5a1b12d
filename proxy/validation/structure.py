"""Batches that brokers refuse whatever is in them: judged here too, because what cannot be read cannot be validated.

The codes are those of Kafka's LogValidator and UnifiedLog; tests/integration compares them with a broker's.
"""

from __future__ import annotations

from kafka_sidecar.codec.records import Batch, batches

from kafka_sidecar.codec.apis import ErrorCode
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.proxy.validation.responses import Refused

NO_TIMESTAMP = -1


def only_batch(records: bytes | memoryview | None) -> Batch | Refused:
    """The one batch of format 2 that a partition of a Produce request consists of."""
    try:
        found = batches(records or b"")
    except CodecError as error:
        return Refused(ErrorCode.CORRUPT_MESSAGE, f"not a record batch: {error}")
    if len(found) != 1:
        return Refused(ErrorCode.INVALID_RECORD, f"{len(found)} record batches in place of exactly one")
    batch = found[0]
    if batch.magic != 2:
        return Refused(ErrorCode.INVALID_RECORD, f"records of format {batch.magic} where format 2 is needed")
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


def unreadable(error: CodecError) -> Refused:
    """A batch whose checksum is right and whose records cannot be read."""
    return Refused(ErrorCode.INVALID_RECORD, f"the records cannot be read: {error}")
