"""Which segments were seen at which offsets of a partition, in ranges that were read without a gap.

A message of li-apache-kafka-clients is complete at the record that brings its last missing segment. To know that, all
records up to the expiration gap before it must have been seen: by this client, by another one, or by looking back.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kafka_sidecar.large_messages.classify import Part

MAX_RANGES = 16  # of a partition: about as many as there are consumers at different offsets
MAX_PARTITIONS = 10_000
MAX_SEEN = 10_000  # segments in one range


class Seen(NamedTuple):
    """A segment, without its payload."""

    offset: int
    number: int
    total: int  # of segments
    size: int  # of the whole value
    is_carrier: bool


class _Range:
    """Offsets from ``start`` to ``end``, exclusive, that were read without a gap."""

    __slots__ = ("end", "segments", "start", "total")

    def __init__(self, start: int, end: int) -> None:
        self.start = start
        self.end = end
        self.segments: dict[bytes, dict[int, Seen]] = {}  # by message id, then by offset
        self.total = 0

    def add(self, message_id: bytes, seen: Seen) -> None:
        of_message = self.segments.setdefault(message_id, {})
        if seen.offset not in of_message:
            of_message[seen.offset] = seen
            self.total += 1

    def all(self) -> Iterator[tuple[bytes, Seen]]:
        for message_id, of_message in self.segments.items():
            for seen in of_message.values():
                yield message_id, seen

    def shrink(self) -> None:
        """Forget the older half."""
        kept = sorted(self.all(), key=lambda one: one[1].offset)[self.total // 2 :]
        self.start = kept[0][1].offset
        self.segments, self.total = {}, 0
        for message_id, seen in kept:
            self.add(message_id, seen)


class SegmentIndexes:
    """The indexes of all partitions; the one that was not used for longest is forgotten first."""

    def __init__(self) -> None:
        self._indexes: OrderedDict[tuple[bytes | str, int, bool], SegmentIndex] = OrderedDict()

    def of(self, topic: bytes | str, partition: int, is_committed_only: bool) -> SegmentIndex:
        """The index for readers of one isolation level."""
        key = topic, partition, is_committed_only
        index = self._indexes.get(key)
        if index is None:
            index = self._indexes[key] = SegmentIndex()
            if len(self._indexes) > MAX_PARTITIONS:
                self._indexes.popitem(last=False)
        else:
            self._indexes.move_to_end(key)
        return index


class SegmentIndex:
    """The segments of one partition, as readers with one isolation level see it."""

    def __init__(self) -> None:
        self._ranges: list[_Range] = []  # the one that was used last is the last

    def note(self, start: int, end: int, parts: Iterable[Part] = ()) -> None:
        """The offsets from ``start`` to ``end``, exclusive, were read; these parts are all that there are."""
        touching = [one for one in self._ranges if one.start <= end and start <= one.end]
        if touching:
            merged = max(touching, key=lambda one: one.total)
            for one in touching:
                if one is not merged:
                    merged.start, merged.end = min(merged.start, one.start), max(merged.end, one.end)
                    for message_id, seen in one.all():
                        merged.add(message_id, seen)
                self._ranges.remove(one)
            merged.start, merged.end = min(merged.start, start), max(merged.end, end)
        else:
            merged = _Range(start, end)
        self._ranges.append(merged)
        for part in parts:
            segment = part.segment
            seen = Seen(part.offset, segment.number, segment.count, segment.size, part.is_carrier)
            merged.add(segment.message_id, seen)
        if merged.total > MAX_SEEN:
            merged.shrink()
        if len(self._ranges) > MAX_RANGES:
            del self._ranges[0]

    def first_unread(self, start: int, end: int) -> int | None:
        """The first offset from ``start`` to ``end``, exclusive, that was not read; None: all were."""
        at = start
        for one in sorted(self._ranges, key=lambda one: one.start):
            if one.start <= at < one.end:
                at = one.end
        return at if at < end else None

    def earlier(self, message_id: bytes, start: int, end: int) -> list[Seen]:
        """The segments of a message at the offsets from ``start`` to ``end``, exclusive, in their order."""
        seen = [one for range_ in self._ranges for one in range_.segments.get(message_id, {}).values()]
        return sorted({one for one in seen if start <= one.offset < end})
