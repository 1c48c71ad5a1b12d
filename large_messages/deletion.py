"""The offset up to which a partition may be deleted, if a client wants to delete what its group has committed.

Slices lie before the committed offset while their message ends at it or after it: Kafka Streams deletes the records of
repartition topics so. They stay. What this process has not seen of the gap before the offset is read.
"""

from __future__ import annotations

from functools import partial

from kafka_sidecar.codec.apis import ErrorCode
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.visibility import SHOWN, all_visible, offsets_of
from kafka_sidecar.large_messages.classify import Part
from kafka_sidecar.large_messages.intervals import Intervals
from kafka_sidecar.large_messages.partition_log import RECORD_BYTES, PartitionLog, cut_read
from kafka_sidecar.large_messages.reading import READ_BYTES, UnreadableError, compute
from kafka_sidecar.plugins.effects import Steps


def deletable(log: PartitionLog, intervals: Intervals, log_start: int, offset: int) -> Steps[int]:
    """The offset before which all may be deleted, of a log from ``log_start`` to ``offset`` or later.

    Messages of transactions that are open or aborted count as all others: their carriers are deleted with them.

    Raises:
        UnreadableError: the broker does not let the log be read now.
    """
    gap, place = log.settings.look_back, (log.topic, log.partition)
    first = max(offset - 1 - gap, log_start)
    segments: dict[bytes, dict[int, int]] = {}  # that were read here: their offsets by message id and number
    while (at := intervals.first_unseen(*place, first, offset)) is not None:
        fetched = yield from log.read(at, READ_BYTES)
        if fetched.error_code != ErrorCode.NONE:
            raise UnreadableError(fetched.error_code)
        end, parts = yield from compute(partial(_parts, log, fetched.records), fetched.records)
        if end <= at:
            raise UnreadableError(ErrorCode.UNKNOWN_SERVER_ERROR)
        for part in parts:
            if part.offset >= at:
                _note(part, intervals, log, segments)
        intervals.see(*place, at, end)
    return intervals.deletable(*place, offset, gap)


def _note(part: Part, intervals: Intervals, log: PartitionLog, segments: dict[bytes, dict[int, int]]) -> None:
    """One part that follows those before."""
    segment, tracked = part.segment, log.settings.max_tracked
    place = log.topic, log.partition, segment.message_id
    if segment.count == 1:
        return
    others = segments.setdefault(segment.message_id, {})
    is_new = others.setdefault(segment.number, part.offset) == part.offset
    if part.is_carrier:
        offsets = part.pointers.offsets if part.pointers is not None else others.values()
        intervals.complete(*place, min(offsets, default=part.offset), part.offset, tracked)
    elif is_new and part.has_key and len(others) == segment.count:
        intervals.complete(*place, min(others.values()), part.offset, tracked)
    else:
        intervals.see_slice(*place, part.offset, tracked)


def _parts(log: PartitionLog, data: bytes | memoryview) -> tuple[int, list[Part]]:
    """The offset after what was read, and the parts in it. No consumer gets what cannot be looked into."""
    end, parts = -1, list[Part]()
    for batch, visibility in all_visible(cut_read(data)):
        if visibility is SHOWN:
            try:
                _, found = log.parts_of(batch, log.settings.max_message + RECORD_BYTES)
            except CodecError:
                found = {}
            parts += [part for part in found.values() if isinstance(part, Part)]
        end = offsets_of(batch)[1] + 1
    return end, parts
