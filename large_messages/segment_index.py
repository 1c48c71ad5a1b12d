"""Which segments were seen in the gap before a position of a partition, while its log was read without a gap.

A message of li-apache-kafka-clients is complete at the record that brings its last missing segment. To know that, all
records up to the expiration gap before it must have been seen: by this reader, by another one, or by looking back.

Each response walks a `Window` along the log, which forgets what the gap has passed: so no range is ever needed twice.
An index keeps the windows at the positions where responses have ended, for the requests that go on there. What is read
again is noted again from there on, and nothing that another reader has seen after the position matters.

    window:   |---- gap ----|> walks on
    blocks:   [....][...][..]   those that are full are shared by all windows, and never change
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from kafka_sidecar.large_messages.classify import Part
from kafka_sidecar.large_messages.segment import Segment

MAX_BYTES = 32 << 20  # of all windows together, roughly
MAX_WINDOWS = 16  # of a partition: about as many as there are consumers at different offsets
FULL_BLOCK = 128  # segments
WINDOW_BYTES, MESSAGE_BYTES, SEEN_BYTES = 600, 640, 120  # of the objects of each, roughly
MAX_LOOK_BACK_BYTES = 256 << 20  # read, and inflated, to see all of one gap

Key = tuple[bytes, int, int]  # what the segments of one message have in common: its id, their number, its size
Place = tuple[bytes | str, int, bool]  # a partition, for readers of one isolation level


class _Message:
    """The segments of one message in a block."""

    __slots__ = ("carrier", "delivered", "numbers")

    def __init__(self) -> None:
        self.numbers: dict[int, list[int]] = {}  # ascending offsets
        self.carrier = self.delivered = -1  # the offset of the last carrier; of the last one that was delivered


class _Block:
    """Offsets from ``start`` to ``end``, exclusive, that were read without a gap."""

    __slots__ = ("count", "end", "messages", "start")

    def __init__(self, start: int, end: int) -> None:
        self.start = start
        self.end = end
        self.messages: dict[Key, _Message] = {}
        self.count = 0

    @property
    def size(self) -> int:
        """Bytes in memory, roughly."""
        return WINDOW_BYTES + MESSAGE_BYTES * len(self.messages) + SEEN_BYTES * self.count

    def add(self, key: Key, number: int, offset: int, is_carrier: bool, is_delivered: bool) -> None:
        """A segment, after those that are there."""
        message = self.messages.get(key)
        if message is None:
            message = self.messages[key] = _Message()
        message.numbers.setdefault(number, []).append(offset)
        if is_carrier:
            message.carrier = offset
            if is_delivered:
                message.delivered = offset
        self.count += 1

    def before(self, end: int) -> _Block:
        """A copy of what is before an offset."""
        copy = _Block(self.start, min(self.end, end))
        for key, message in self.messages.items():
            found = [(one, number) for number, offsets in message.numbers.items() for one in offsets if one < end]
            for offset, number in sorted(found):
                copy.add(key, number, offset, offset == message.carrier, offset == message.delivered)
        return copy


class Window:
    """What was seen before the offset ``end``: it walks on with who reads the log."""

    __slots__ = ("_blocks", "_is_open", "end", "is_seen", "look_back", "room")

    def __init__(self, end: int, look_back: int) -> None:
        self.end = end
        self.look_back = look_back  # the gap
        self.room = MAX_LOOK_BACK_BYTES  # that may still be read to see all of the gap
        self.is_seen = False  # whether all of the gap was, which it stays: what follows is seen as it is walked over
        self._blocks: list[_Block] = []  # in their order
        self._is_open = False  # whether the last one is this window's alone, and may change

    @property
    def first(self) -> int:
        """The offset with which the gap begins."""
        return max(self.end - self.look_back, 0)

    @property
    def blocks(self) -> Iterator[tuple[int, int]]:
        """The identity of each block and its bytes."""
        return ((id(one), one.size) for one in self._blocks)

    def extend(self, end: int) -> None:
        """The offsets up to ``end``, exclusive, were read; no segment is among them that is not added."""
        if end > self.end:
            self._last().end = self.end = end

    def skip(self, end: int) -> None:
        """The offsets up to ``end``, exclusive, were not seen."""
        if end > self.end:
            self.end = end
            self._is_open = self.is_seen = False

    def add(self, part: Part, is_delivered: bool = False) -> None:
        """A segment, at the end.

        ``is_delivered``: whether it is a carrier whose message was delivered.
        """
        if part.offset < self.end:  # the window has it
            return
        block = self._last()
        block.add(_key(part.segment), part.segment.number, part.offset, part.is_carrier, is_delivered)
        block.end = self.end = part.offset + 1
        if block.count >= FULL_BLOCK:
            self.seal()

    def insert(self, start: int, end: int, parts: Iterable[Part] = ()) -> None:
        """What was read in a gap that `last_unread` has named, or a part of it."""
        block = _Block(start, end)
        for part in parts:
            block.add(_key(part.segment), part.segment.number, part.offset, part.is_carrier, is_delivered=False)
        at = next((number for number, one in enumerate(self._blocks) if one.start >= end), len(self._blocks))
        self._blocks.insert(at, block)
        if at == len(self._blocks) - 1:
            self._is_open = False

    def seal(self) -> None:
        """No block that there is changes from now on."""
        self._is_open = False

    def unread(self, start: int, end: int) -> tuple[int, int] | None:
        """The first of these offsets that were not read, and the end of those that follow it; None: all were."""
        at = start
        for one in self._blocks:
            if one.end <= at:
                continue
            if one.start > at:
                return (at, min(one.start, end)) if at < end else None
            at = one.end
        return (at, end) if at < end else None

    def before(self, end: int, look_back: int) -> Window | None:
        """A window that ends at an offset which this one has seen; None: it has not."""
        if not any(one.start <= end <= one.end for one in self._blocks) and (end != self.end or not self._blocks):
            return None
        found = Window(end, look_back)
        for one in self._blocks:
            if one.start < end and one.end > found.first:
                found._blocks.append(one if one.end <= end else one.before(end))
        if found.unread(found.first, end) is not None:
            found.room = self.room
        return found

    def has_seen_gap_before(self, end: int) -> bool:
        """Whether it serves as well as a window that ends there."""
        return end <= self.end and self.unread(max(end - self.look_back, 0), end) is None

    def others(self, segment: Segment) -> dict[int, int] | None:
        """Where the other segments of its message are, unless they do not complete it now: None then."""
        key, first = _key(segment), self.first
        found = [one for block in self._blocks if (one := block.messages.get(key)) is not None]
        if sum(len(one.numbers) for one in found) < segment.count - 1:
            return None
        if any(one.carrier >= first or one.numbers.get(segment.number, (-1,))[-1] >= first for one in found):
            return None
        places: dict[int, int] = {}
        for one in found:
            for number, offsets in one.numbers.items():
                if offsets[-1] >= first and number not in places:
                    places[number] = offsets[bisect_left(offsets, first)]
        return places if len(places) == segment.count - 1 else None

    def nearest(self, segment: Segment) -> dict[int, int]:
        """Where the other segments of its message are, the last copy of each."""
        key, first = _key(segment), self.first
        places: dict[int, int] = {}
        for block in self._blocks:
            if (one := block.messages.get(key)) is not None:
                for number, offsets in one.numbers.items():
                    if (last := offsets[-1]) >= first and number != segment.number:
                        places[number] = last
        return places

    def has_delivered(self, segment: Segment) -> bool:
        """Whether its message was delivered at a carrier in the gap."""
        key, first = _key(segment), self.first
        return any((one := block.messages.get(key)) is not None and one.delivered >= first for block in self._blocks)

    def _last(self) -> _Block:
        """The block to which more may be added."""
        if self._is_open:
            return self._blocks[-1]
        blocks, first = self._blocks, self.first
        while blocks and blocks[0].end <= first:
            del blocks[0]
        if blocks and blocks[-1].end == self.end and blocks[-1].count < FULL_BLOCK:
            blocks[-1] = blocks[-1].before(self.end)
        else:
            blocks.append(_Block(self.end, self.end))
        self._is_open = True
        return blocks[-1]


def _key(segment: Segment) -> Key:
    return segment.message_id, segment.count, segment.size


class SegmentIndexes:
    """The windows of all partitions; those that were not used for longest are forgotten first."""

    def __init__(self, limit: int = MAX_BYTES) -> None:
        """``limit``: bytes of all together."""
        self._limit = limit
        self._windows: OrderedDict[tuple[Place, int], Window] = OrderedDict()  # by partition and end
        self._ends: dict[Place, list[int]] = {}  # of these, by partition; the one that was kept last is the last
        self._uses: Counter[int] = Counter()  # of each block, by its identity
        self.bytes = 0

    def of(self, topic: bytes | str, partition: int, is_committed_only: bool) -> SegmentIndex:
        """The index for readers of one isolation level."""
        return SegmentIndex(self, (topic, partition, is_committed_only))

    def window(self, place: Place, end: int, look_back: int) -> Window | None:
        """The newest one that has seen all of the gap before an offset, or some of it."""
        found = None
        for at in reversed(self._ends.get(place, ())):
            if (one := self._windows[place, at].before(end, look_back)) is None:
                continue
            self._windows.move_to_end((place, at))
            if one.unread(one.first, end) is None:
                return one
            found = found or one
        return found

    def keep(self, place: Place, window: Window) -> None:
        """Keep a window for who goes on at its end; those that it makes needless are forgotten."""
        window.seal()
        if (kept := window.before(window.end, window.look_back)) is None:
            return
        ends = self._ends.get(place, [])
        needless = [one for one in ends if one == kept.end or kept.has_seen_gap_before(one)]
        for end in needless or ends[: 1 - MAX_WINDOWS]:
            self._forget(place, end)
        self._windows[place, kept.end] = kept
        self._ends.setdefault(place, []).append(kept.end)
        for identity, size in kept.blocks:
            self._uses[identity] += 1
            self.bytes += size if self._uses[identity] == 1 else 0
        while self.bytes > self._limit:
            self._forget(*next(iter(self._windows)))

    def _forget(self, place: Place, end: int) -> None:
        for identity, size in self._windows.pop((place, end)).blocks:
            self._uses[identity] -= 1
            if not self._uses[identity]:
                del self._uses[identity]
                self.bytes -= size
        self._ends[place].remove(end)
        if not self._ends[place]:
            del self._ends[place]


@dataclass(frozen=True, slots=True)
class SegmentIndex:
    """The windows of one partition, as readers with one isolation level see it."""

    store: SegmentIndexes = field(default_factory=SegmentIndexes)
    place: Place = ("", 0, False)

    def window(self, end: int, look_back: int) -> Window | None:
        """A window that ends at an offset, if what is before it was seen."""
        return self.store.window(self.place, end, look_back)

    def keep(self, window: Window) -> None:
        """For who goes on at its end."""
        self.store.keep(self.place, window)
