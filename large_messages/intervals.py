"""Where large messages begin and end: what a group that commits an offset must be able to read again.

The offset of a large message is that of the record that completes it, its end; the first of its slices is its start. A
group that has committed C has got all messages that end before C, and none that ends at C or later. The safe offset

    S(C) = min(C, min{start(m) : start(m) < C <= end(m)}),     end(m) = infinity while m is incomplete

is where a consumer that cannot read back must begin, to assemble all that follow (`safeOffset` of
li-apache-kafka-clients).
"""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

MAX_TRACKED = 500  # `max.tracked.messages.per.partition`
MAX_GAP = 1000  # `message.assembler.expiration.offset.gap`
MAX_TRACKED_OVERALL = 100_000  # about 30 MB

Topic = bytes | str  # its id (16 bytes), or its name in a cluster without ids

_INCOMPLETE = 1 << 63  # after all offsets


class _Interval(NamedTuple):
    start: int
    end: int


class Intervals:
    """The large messages that this process has seen, by topic and partition; shared by all groups.

    What is not known here makes S(C) = C, which loses nothing: the sidecar reads back.
    """

    def __init__(self, max_overall: int = MAX_TRACKED_OVERALL) -> None:
        self._max_overall = max_overall
        self._partitions: OrderedDict[tuple[Topic, int], OrderedDict[bytes, _Interval]] = OrderedDict()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def see_slice(
        self, topic: Topic, partition: int, message_id: bytes, offset: int, max_tracked: int = MAX_TRACKED
    ) -> None:
        """A slice of this message is stored there; the one that completes it has not been read yet.

        A slice of a message that is complete is read again, or was left by an attempt that failed: it changes nothing.
        """
        known = self._partition(topic, partition).get(message_id)
        if known is None or (known.end == _INCOMPLETE and offset < known.start):
            self._put(topic, partition, message_id, _Interval(offset, _INCOMPLETE), max_tracked)

    def complete(
        self, topic: Topic, partition: int, message_id: bytes, start: int, end: int, max_tracked: int = MAX_TRACKED
    ) -> None:
        """The record at ``end`` completes the message, whether it is delivered or not: it is aborted, or misses a part.

        The first of the slices of which it is assembled is at ``start``.
        """
        self._put(topic, partition, message_id, _Interval(start, end), max_tracked)

    def safe_offset(self, topic: Topic, partition: int, committed: int, max_gap: int = MAX_GAP) -> int:
        """S of a committed offset. Messages that begin more than ``max_gap`` offsets before the last one that the group
        has got have expired, as they would in li's consumers.
        """
        expired_before = committed - 1 - max_gap
        return min(
            (start for start, end in self._of(topic, partition) if expired_before <= start < committed <= end),
            default=committed,
        )

    def is_open(self, topic: Topic, partition: int, first: int, last: int) -> bool:
        """Whether S(C) may be less than C for the commit of one of these offsets, each plus 1."""
        return any(start <= last and first < end for start, end in self._of(topic, partition))

    def _of(self, topic: Topic, partition: int) -> list[_Interval]:
        """A copy: threads ask, too."""
        return [*self._partitions.get((topic, partition), {}).values()]

    def _partition(self, topic: Topic, partition: int) -> OrderedDict[bytes, _Interval]:
        return self._partitions.get((topic, partition)) or OrderedDict()

    def _put(self, topic: Topic, partition: int, message_id: bytes, interval: _Interval, max_tracked: int) -> None:
        place = topic, partition
        intervals = self._partitions.setdefault(place, OrderedDict())
        self._partitions.move_to_end(place)
        self._count -= len(intervals)
        intervals[message_id] = interval
        while len(intervals) > max_tracked:
            intervals.popitem(last=False)
        self._count += len(intervals)
        while self._count > self._max_overall:
            _, forgotten = self._partitions.popitem(last=False)
            self._count -= len(forgotten)
