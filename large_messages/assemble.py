"""Where a large message is delivered, and how its value is collected: from the cache, from the log, by looking back.

* A carrier delivers its message. Its pointers say where the slices are, whatever topic they name: the message's id, the
  slice's number and the checksum of the value prove them. If they lead nowhere (a mirrored topic), slices of its id are
  searched in the gap before it, and where all of them have moved as far as those that are found there.
* Segments without pointers deliver theirs at the first record with which all of them are in the gap before it. Copies
  that come later are not delivered: a message is not complete twice.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from kafka_sidecar.codec.apis import ErrorCode
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.visibility import offsets_of
from kafka_sidecar.large_messages.assembly import Assembly, DamagedError
from kafka_sidecar.large_messages.classify import Part
from kafka_sidecar.large_messages.object_reference import ObjectReference
from kafka_sidecar.large_messages.partition_log import RECORD_BYTES, SLICE_OVERHEAD_BYTES, PartitionLog, cut_read
from kafka_sidecar.large_messages.reading import (
    MAX_INLINE_BYTES,
    READ_BYTES,
    ReadObject,
    UnreadableError,
    compute,
)
from kafka_sidecar.large_messages.segment import Segment
from kafka_sidecar.plugins.effects import Steps, Work

Locations = Mapping[int, int]  # the offsets of segments, by number


@dataclass(frozen=True, slots=True)
class Missing:
    """A message that cannot be assembled, whenever it is tried again."""

    reason: str  # a label value of kafka_sidecar_large_messages_dropped_total


PROVED_FACTOR = 2  # of the bytes of a message that were found: what may be read where its pointers lead
MISSING, DAMAGED, TOO_LARGE = Missing("missing"), Missing("damaged"), Missing("too_large")


def find_segments(log: PartitionLog, part: Part) -> Steps[Locations | None]:
    """Where the other segments of the message are that a segment without pointers completes; None: it does not.

    The window of the log ends at the segment.
    """
    segment = part.segment
    if segment.count == 1:
        return {}
    if not part.may_complete:
        return None
    sees_all = yield from log.look_back()
    found = log.window.others(segment)
    if found is None and not sees_all:
        log.report.dropped(part.offset, MISSING.reason, segment.message_id)
    return found


def assemble(log: PartitionLog, part: Part, assembly: Assembly, locations: Locations | None) -> Steps[Missing | int]:
    """Collect and check the value of the message that is delivered at ``part``.

    Args:
        log: of the partition.
        part: the record.
        assembly: of the message, with what has been collected before.
        locations: of its other segments; None: the pointers of the carrier say it.

    Returns:
        The offset of the first segment if the assembly is whole, or why it cannot be.

    Raises:
        UnreadableError: the broker does not let the log be read now.
    """
    if part.reference is not None:
        return (yield from _collect_object(part.reference, assembly)) or part.offset
    reason = MISSING
    if locations is None:
        pointed = dict(enumerate(part.pointers.offsets)) if part.pointers is not None else {}
        if part.pointers is not None and max(pointed.values(), default=-1) < part.offset:
            result = yield from _collect(log, assembly, pointed, are_seen=False)
            if result is None:
                return min(pointed.values(), default=part.offset)
            reason = result
        yield from log.look_back()
        nearest = log.window.nearest(part.segment)
        locations = {**_shifted(pointed, nearest, part.offset), **nearest}
        if len(locations) < part.segment.count - 1:
            return reason
        assembly.restart(part.segment)
        result = yield from _collect(log, assembly, locations, are_seen=len(locations) == len(nearest))
    else:
        result = yield from _collect(log, assembly, locations)
    return min(locations.values(), default=part.offset) if result is None else result


def _shifted(pointed: Locations, nearest: Locations, end: int) -> dict[int, int]:
    """Where slices are that are farther away than what is looked back to, if some were seen.

    A tool that copies a partition record by record shifts all offsets by as much.
    """
    found: dict[int, int] = {}
    near = sorted(number for number in nearest if number in pointed)
    for number, offset in pointed.items():
        if near and number not in nearest:
            closest = near[min(bisect_left(near, number), len(near) - 1)]
            at = offset + nearest[closest] - pointed[closest]
            if at != offset and 0 <= at < end:
                found[number] = at
    return found


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


def _collect(
    log: PartitionLog, assembly: Assembly, locations: Locations, are_seen: bool = True
) -> Steps[Missing | None]:
    """Add the segments at these offsets, and check the whole.

    ``are_seen``: they were seen there; otherwise a client has written that they are there.
    """
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
            found = yield from _read(log, assembly, pending, are_seen)
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


def _read(
    log: PartitionLog, assembly: Assembly, pending: Mapping[int, int], are_seen: bool
) -> Steps[list[tuple[int, Segment]]]:
    """The first of the segments that are missing, with those that follow it closely. Empty: it is not there.

    Once they have READ_BYTES together, inflated, those that follow are left for another read.

    Raises:
        UnreadableError: also if the broker does not say what is at its offset.
    """
    first, *others = sorted(pending)
    run = 1
    while run <= len(others) and others[run - 1] == first + run:
        run += 1
    size = -(-assembly.bytes_left * run // len(pending)) + run * SLICE_OVERHEAD_BYTES
    if not are_seen:  # whoever writes pointers to nothing must not make us read much
        size = min(size, max(MAX_INLINE_BYTES, PROVED_FACTOR * assembly.bytes_added))
    fetched = yield from log.read(first, min(size, READ_BYTES))
    if fetched.error_code == ErrorCode.OFFSET_OUT_OF_RANGE or fetched.log_start_offset > first:
        return []
    find = partial(_find, log, fetched.records, pending, assembly.segment)
    found: _Found = yield Work(find)
    if not found.knows_first:
        raise UnreadableError(ErrorCode.UNKNOWN_SERVER_ERROR)
    for offset, segment in found.segments:
        log.cache.put(log.place(offset), segment)
    return found.segments


class _Found(NamedTuple):
    segments: list[tuple[int, Segment]]  # with their offsets; the first one that is wanted is the first
    knows_first: bool  # whether there are records at its offset, or after it


def _find(log: PartitionLog, data: bytes | memoryview, wanted: Mapping[int, int], one: Segment) -> _Found:
    """The segments at the wanted offsets, up to the first offset at which there is something else.

    ``one``: another segment of the message.
    """
    found: list[tuple[int, Segment]] = []
    found_bytes, first_wanted, knows_first = 0, min(wanted), False
    left = set(wanted)
    limit = log.settings.max_message + RECORD_BYTES
    for batch in cut_read(data):
        first, last = offsets_of(batch)
        if last < first_wanted:
            continue
        knows_first = True
        if not found and first > first_wanted:
            break
        inside = sorted(offset for offset in left if first <= offset <= last)
        if not inside:
            continue
        try:
            _, parts = log.parts_of(batch, limit)
        except CodecError:
            break
        by_offset = {part.offset: part for part in parts.values() if isinstance(part, Part)}
        for offset in inside:
            part = by_offset.get(offset)
            if part is None or part.segment.message_id != one.message_id or part.segment.number != wanted[offset]:
                return _Found(found, knows_first)
            found.append((offset, part.segment))
            found_bytes += len(part.segment.payload)
            left.discard(offset)
        if found_bytes >= READ_BYTES:
            break
    return _Found(found, knows_first)
