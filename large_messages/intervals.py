"""Where large messages begin and end: what must be there still for a group that commits an offset.

The offset of a large message is that of the record that completes it, its end; the first of its slices is its start. A
group that has committed C has got all messages that end before C, and none that ends at C or later. The safe offset

    S(C) = min(C, min{start(m) : start(m) < C <= end(m)}),     end(m) = infinity while m is incomplete

is where a consumer that cannot read back must begin, to assemble all that follow (`safeOffset` of
li-apache-kafka-clients). It is also what may be deleted once C is committed.

What is not known makes S(C) = C for a commit, which loses nothing: the sidecar reads back. So an incomplete message
counts only where this process has seen all offsets from its start up to C: the record that completes it may be among
those that another process has read. For a deletion all offsets in the gap must have been seen, or be read first.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

MAX_TRACKED = 500  # `max.tracked.messages.per.partition`
MAX_GAP = 1000  # `message.assembler.expiration.offset.gap`
MAX_TRACKED_OVERALL = 100_000  # about 30 MB
MAX_PARTITIONS = 10_000
MAX_RANGES = 8  # of a partition: about as many as there are consumers at different offsets
ABANDONED_S = 300.0  # longer than a producer tries to deliver a message (`delivery.timeout.ms`)

Topic = bytes | str  # its id (16 bytes), or its name in a cluster without ids

_INCOMPLETE = 1 << 63  # after all offsets
_NOWHERE = -1  # before all offsets


class _Interval(NamedTuple):
    start: int
    end: int
    last: int  # the last slice that was seen
    grew: float  # seconds: when that was; -inf: the message is given up


# A message that is given up before a slice of it was seen: it is in no gap.
_UNSEEN = _Interval(_INCOMPLETE, _NOWHERE, _NOWHERE, -inf)


@dataclass(slots=True)
class _Partition:
    intervals: OrderedDict[bytes, _Interval] = field(default_factory=OrderedDict)
    seen: list[tuple[int, int]] = field(default_factory=list)  # ranges; the one that has grown last is the last
    forgotten_end: int = 0  # the last end of a message that is forgotten
    forgotten_start: int = -1  # the last start of one that was forgotten while it was incomplete

    def straddling(self, offset: int) -> Iterator[_Interval]:
        """Those that begin before an offset and end there or later. Of a copy: threads ask, too."""
        return (one for one in [*self.intervals.values()] if one.start < offset <= one.end)

    def first_unseen(self, start: int, end: int) -> int | None:
        at = start
        for seen_from, seen_until in sorted(self.seen):
            if seen_from <= at < seen_until:
                at = seen_until
        return at if at < end else None


def _always() -> float:
    return 0.0


class Intervals:
    """The large messages that this process has seen, by topic and partition; shared by all groups."""

    def __init__(self, max_overall: int = MAX_TRACKED_OVERALL, clock: Callable[[], float] = _always) -> None:
        """``clock``: seconds."""
        self._max_overall = max_overall
        self._clock = clock
        self._partitions: OrderedDict[tuple[Topic, int], _Partition] = OrderedDict()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def see_slice(
        self, topic: Topic, partition: int, message_id: bytes, offset: int, max_tracked: int = MAX_TRACKED
    ) -> None:
        """A slice of this message is stored there; the one that completes it has not been read yet.

        A slice of a message that is complete is read again, or was left by an attempt that failed: it changes nothing.
        A message that is given up stays so.
        """
        known = self._of(topic, partition).intervals.get(message_id)
        if known is None:
            new = _Interval(offset, _INCOMPLETE, offset, self._clock())
        elif known == _UNSEEN:
            new = _Interval(offset, _INCOMPLETE, offset, -inf)
        elif known.end != _INCOMPLETE or known.start <= offset <= known.last:
            return
        elif offset < known.start:
            new = known._replace(start=offset)
        else:
            new = known._replace(last=offset, grew=known.grew if known.grew == -inf else self._clock())
        self._put(topic, partition, message_id, new, max_tracked)

    def complete(
        self, topic: Topic, partition: int, message_id: bytes, start: int, end: int, max_tracked: int = MAX_TRACKED
    ) -> None:
        """The record at ``end`` completes the message.

        The first of the slices of which it is assembled is at ``start``.
        """
        self._put(topic, partition, message_id, _Interval(start, end, end, 0.0), max_tracked)

    def give_up(self, topic: Topic, partition: int, message_id: bytes, max_tracked: int = MAX_TRACKED) -> None:
        """A record that should complete the message does not: it misses a part, is damaged or aborted.

        No commit waits for the message from now on, whoever sees its slices later: a slow reader of uncommitted records
        is in the middle of a message that others know as aborted. The slices that were seen are not deleted: who has
        written that record may be another one than who has written them, and the one that completes them may follow.
        """
        known = self._of(topic, partition).intervals.get(message_id, _UNSEEN)
        if known.end in {_INCOMPLETE, _NOWHERE}:
            self._put(topic, partition, message_id, known._replace(grew=-inf), max_tracked)

    def see(self, topic: Topic, partition: int, start: int, end: int) -> None:
        """All that is stored from ``start`` to ``end``, exclusive, has been seen: its messages were reported before."""
        if start >= end:
            return
        at = self._place(topic, partition)
        for one in [one for one in at.seen if one[0] <= end and start <= one[1]]:
            at.seen.remove(one)
            start, end = min(start, one[0]), max(end, one[1])
        at.seen.append((start, end))
        if len(at.seen) > MAX_RANGES:
            del at.seen[0]

    def safe_offset(self, topic: Topic, partition: int, committed: int, max_gap: int = MAX_GAP) -> int:
        """S of a committed offset. Messages that begin more than ``max_gap`` offsets before the last one that the group
        has got have expired, as they would in li's consumers; so have those to which nothing was added for a while.
        """
        at, expired_before = self._of(topic, partition), committed - 1 - max_gap
        abandoned_before = self._clock() - ABANDONED_S
        return min(
            (
                one.start
                for one in at.straddling(committed)
                if one.start >= expired_before
                and (
                    one.end != _INCOMPLETE
                    or (one.grew >= abandoned_before and at.first_unseen(one.start, committed) is None)
                )
            ),
            default=committed,
        )

    def first_unseen(self, topic: Topic, partition: int, start: int, end: int) -> int | None:
        """The first offset from ``start`` to ``end``, exclusive, that was not seen; None: all were."""
        return self._of(topic, partition).first_unseen(start, end)

    def deletable(self, topic: Topic, partition: int, offset: int, max_gap: int = MAX_GAP) -> int:
        """The offset before which all may be deleted, if the client wants that before ``offset``.

        All offsets of the gap before it were seen. Time does not count: what completes a message may be stored at
        ``offset`` or later for a long time, and be read then.
        """
        at, expired_before = self._of(topic, partition), max(offset - 1 - max_gap, 0)
        is_forgotten = offset <= at.forgotten_end or at.forgotten_start >= expired_before
        starts = (one.start for one in at.straddling(offset) if one.end != _INCOMPLETE or one.start >= expired_before)
        return min(starts, default=offset) if not is_forgotten else min(expired_before, offset, *starts)

    def begins(self, topic: Topic, partition: int, offset: int) -> bool:
        """Whether the first slice of a message is known to be there."""
        return any(one.start == offset for one in [*self._of(topic, partition).intervals.values()])

    def is_open(self, topic: Topic, partition: int, first: int, last: int) -> bool:
        """Whether S(C) may be less than C for the commit of one of these offsets, each plus 1."""
        intervals = [*self._of(topic, partition).intervals.values()]
        return any(one.start <= last and first < one.end for one in intervals)

    def _of(self, topic: Topic, partition: int) -> _Partition:
        return self._partitions.get((topic, partition)) or _Partition()

    def _place(self, topic: Topic, partition: int) -> _Partition:
        place = topic, partition
        if (found := self._partitions.get(place)) is None:
            found = self._partitions[place] = _Partition()
            if len(self._partitions) > MAX_PARTITIONS:
                self._forget_partition()
        else:
            self._partitions.move_to_end(place)
        return found

    def _forget_partition(self) -> None:
        _, forgotten = self._partitions.popitem(last=False)
        self._count -= len(forgotten.intervals)

    def _put(self, topic: Topic, partition: int, message_id: bytes, interval: _Interval, max_tracked: int) -> None:
        at = self._place(topic, partition)
        self._count -= len(at.intervals)
        at.intervals[message_id] = interval
        while len(at.intervals) > max_tracked:
            self._forget_one(at)
        self._count += len(at.intervals)
        while self._count > self._max_overall:
            self._forget_partition()

    def _forget_one(self, at: _Partition) -> None:
        """The eldest that is complete, which hardly anybody needs; the eldest if none is."""
        complete = (message_id for message_id, one in at.intervals.items() if one.end != _INCOMPLETE)
        forgotten = at.intervals.pop(next(complete, next(iter(at.intervals))))
        if forgotten.end == _INCOMPLETE:
            at.forgotten_start = max(at.forgotten_start, forgotten.start)
        else:
            at.forgotten_end = max(at.forgotten_end, forgotten.end)
