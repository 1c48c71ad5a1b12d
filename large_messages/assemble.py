"""Where a large message is delivered, and how its value is collected: from the cache, from the log, by looking back.

* A carrier delivers its message, as often as it is in the log. Its pointers say where the slices are; if they lead
  nowhere (a mirrored topic), slices of its id are searched in the gap before it.
* Segments without pointers deliver theirs at the first record with which all of them are in the gap before it. Copies
  that come later are not delivered: a message is not complete twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from kafka_sidecar.codec.apis import ErrorCode
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.visibility import offsets_of
from kafka_sidecar.codec.wire import NO_ID
from kafka_sidecar.large_messages.assembly import Assembly, DamagedError
from kafka_sidecar.large_messages.classify import Part
from kafka_sidecar.large_messages.object_reference import ObjectReference
from kafka_sidecar.large_messages.partition_log import RECORD_BYTES, SLICE_OVERHEAD_BYTES, PartitionLog, cut_read
from kafka_sidecar.large_messages.reading import READ_BYTES, ReadObject, compute
from kafka_sidecar.large_messages.segment import Segment
from kafka_sidecar.plugins.effects import Steps, Work

Locations = Mapping[int, int]  # the offsets of segments, by number


@dataclass(frozen=True, slots=True)
class Missing:
    """A message that cannot be assembled, whenever it is tried again."""

    reason: str  # a label value of kafka_sidecar_large_messages_dropped_total


MISSING, DAMAGED, TOO_LARGE = Missing("missing"), Missing("damaged"), Missing("too_large")


def find_segments(log: PartitionLog, part: Part) -> Steps[Locations | None]:
    """Where the other segments of the message are that a segment without pointers completes; None: it does not."""
    segment = part.segment
    if segment.count == 1:
        return {}
    if not part.may_complete:
        return None
    yield from log.look_back(part.offset)
    earlier = log.index.earlier(segment.message_id, part.offset - log.settings.look_back, part.offset)
    found: dict[int, int] = {}
    for seen in earlier:
        if (seen.total, seen.size) != (segment.count, segment.size):
            continue
        if seen.is_carrier or seen.number == segment.number:
            return None
        found.setdefault(seen.number, seen.offset)
    return found if len(found) == segment.count - 1 else None


def assemble(log: PartitionLog, part: Part, assembly: Assembly, locations: Locations | None) -> Steps[Missing | None]:
    """Collect and check the value of the message that is delivered at ``part``.

    Args:
        log: of the partition.
        part: the record.
        assembly: of the message, with what has been collected before.
        locations: of its other segments; None: the pointers of the carrier say it.

    Returns:
        None if the assembly is whole, or why it cannot be.

    Raises:
        UnreadableError: the broker does not let the log be read now.
    """
    if part.reference is not None:
        return (yield from _collect_object(part.reference, assembly))
    if locations is not None:
        return (yield from _collect(log, assembly, locations))
    reason = MISSING
    if part.pointers is not None and (isinstance(log.topic, str) or part.pointers.topic_id in {log.topic, NO_ID}):
        result = yield from _collect(log, assembly, dict(enumerate(part.pointers.offsets)))
        if result is None:
            return None
        reason = result
    yield from log.look_back(part.offset)
    segment = part.segment
    earlier = log.index.earlier(segment.message_id, part.offset - log.settings.look_back, part.offset)
    nearest = {seen.number: seen.offset for seen in earlier if not seen.is_carrier}
    nearest.pop(segment.number, None)
    if len(nearest) < segment.count - 1:
        return reason
    assembly.restart(segment)
    return (yield from _collect(log, assembly, nearest))


def _collect_object(reference: ObjectReference, assembly: Assembly) -> Steps[Missing | None]:
    """Read the object that is the whole value, and check it."""
    found: bytes | None = yield ReadObject(reference.key, reference.size)
    if found is None:
        return MISSING
    try:
        assembly.restart(replace(assembly.segment, payload=found))
        yield from compute(assembly.check, found)
    except DamagedError:
        return DAMAGED
    return None


def _collect(log: PartitionLog, assembly: Assembly, locations: Locations) -> Steps[Missing | None]:
    """Add the segments at these offsets, and check the whole."""
    message_id = assembly.segment.message_id
    try:
        pending: dict[int, int] = {}
        for number, offset in locations.items():
            if number not in assembly.missing:
                continue
            kept = log.segment_at(offset, message_id, number)
            if kept is None:
                pending[offset] = number
            else:
                assembly.add(kept)
        while pending:
            found = yield from _read(log, assembly, pending)
            if not found:
                return MISSING
            for offset, segment in found:
                del pending[offset]
                assembly.add(segment)
        if assembly.bytes_to_sum > RECORD_BYTES:
            yield Work(assembly.check)
        else:
            assembly.check()
    except DamagedError:
        return DAMAGED
    return None


def _read(log: PartitionLog, assembly: Assembly, pending: Mapping[int, int]) -> Steps[list[tuple[int, Segment]]]:
    """The first of the segments that are missing, with those that follow it closely. Empty: it is not there.

    Once they have READ_BYTES together, inflated, those that follow are left for another read.
    """
    first, *others = sorted(pending)
    run = 1
    while run <= len(others) and others[run - 1] == first + run:
        run += 1
    size = -(-assembly.bytes_left * run // len(pending)) + run * SLICE_OVERHEAD_BYTES
    fetched = yield from log.read(first, min(size, READ_BYTES))
    if fetched.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
        return []
    message_id = assembly.segment.message_id
    find = partial(_find, log, fetched.records, pending, message_id, assembly.bytes_left)
    found: list[tuple[int, Segment]] = yield from compute(find, fetched.records)
    if not found or found[0][0] != first:
        return []
    for offset, segment in found:
        log.cache.put(log.place(offset), segment)
    return found


def _find(
    log: PartitionLog, data: bytes | memoryview, wanted: Mapping[int, int], message_id: bytes, bytes_left: int
) -> list[tuple[int, Segment]]:  # fmt: skip
    """The segments at the wanted offsets, up to the first offset at which there is something else."""
    found: list[tuple[int, Segment]] = []
    found_bytes = 0
    left = set(wanted)
    for batch in cut_read(data):
        first, last = offsets_of(batch)
        inside = sorted(offset for offset in left if first <= offset <= last)
        if not inside:
            continue
        try:
            _, parts = log.parts_of(batch, bytes_left + RECORD_BYTES)
        except CodecError:
            return found
        by_offset = {part.offset: part for part in parts.values() if isinstance(part, Part)}
        for offset in inside:
            part = by_offset.get(offset)
            if part is None or part.segment.message_id != message_id or part.segment.number != wanted[offset]:
                return found
            found.append((offset, part.segment))
            found_bytes += len(part.segment.payload)
            left.discard(offset)
        if found_bytes >= READ_BYTES:
            break
    return found
