"""Lanes: what is sent to one partition of a dead letter topic. A lane whose partition takes nothing is held.

Letters of a held lane wait in their order until what it has begun to send is written: by the same producer, with the
same sequence numbers, so that none is there twice. Letters of all other lanes are sent meanwhile.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace

from kafka_sidecar.dead_letters.parcels import Letter, Parcel

BATCH_BYTES = 1 << 20  # of letters, before compression, unless a single one is larger

Key = tuple[str, int]  # dead letter topic, its partition


class Lane:
    """What is sent to one partition."""

    def __init__(
        self, topic: str, partition: int, partitions: int = 1, max_batch: int = 1 << 20, is_compacted: bool = False
    ) -> None:
        """The topic has so many partitions, takes batches of so many bytes, and may be compacted."""
        self.topic = topic
        self.partition = partition
        self.partitions = partitions
        self.max_batch = max_batch
        self.is_compacted = is_compacted
        self.parcels: deque[Parcel] = deque()
        self.task: asyncio.Task[None] | None = None
        self.error: Exception | None = None  # that has ended it
        self.trouble: str | None = None  # why its partition takes nothing for the moment
        self.removed = 0  # letters

    @property
    def is_over(self) -> bool:
        """Whether nothing of it is being sent."""
        return self.task is None or self.task.done()

    def next_letters(self) -> list[Letter]:
        """The next ones that fit into a batch: at least one if there is any."""
        letters: list[Letter] = []
        size = 0
        for parcel in self.parcels:
            for letter in parcel.letters:
                size += letter.size
                if letters and size > BATCH_BYTES:
                    return letters
                letters.append(letter)
        return letters

    def remove(self, letters: int) -> None:
        """The first ones are written, or will never be."""
        self.removed += letters
        while letters:
            parcel = self.parcels.popleft()
            if len(parcel.letters) > letters:
                self.parcels.appendleft(replace(parcel, letters=parcel.letters[letters:]))
                return
            letters -= len(parcel.letters)


class HeldLanes:
    """The lanes whose partitions take nothing, and which of the letters that wait for them may be sent again.

    Copies of what a lane was sending are the first of its letters that wait. Once it is over, these are passed over as
    far as the lane itself has sent them: from `begin` to `end` all that waits is looked at once.
    """

    def __init__(self, wake: Callable[[], None] = lambda: None) -> None:
        """``wake``: called when a lane is over."""
        self._wake = wake
        self._lanes: dict[Key, Lane] = {}
        self._partitions: dict[str, int] = {}  # of their topics: which lane a letter has must not change meanwhile
        self._sent: dict[Key, int] = {}  # letters that lanes which are over have sent themselves

    def add(self, lane: Lane) -> None:
        """Hold a lane. All that it still has was copied."""
        lane.removed = 0
        self._partitions.setdefault(lane.topic, lane.partitions)
        self._lanes[lane.topic, lane.partition] = lane
        if lane.task is not None:
            lane.task.add_done_callback(lambda _: self._wake())

    @property
    def count(self) -> int:
        return len(self._lanes)

    @property
    def lanes(self) -> list[Lane]:
        return list(self._lanes.values())

    @property
    def have_ended(self) -> bool:
        """Whether letters that wait may be sent again: some lanes are over."""
        return any(lane.is_over for lane in self._lanes.values())

    @property
    def have_sent(self) -> bool:
        """Whether some of the letters that wait were sent by their lanes."""
        return any(self._sent.values()) or any(lane.removed for lane in self._lanes.values())

    def partitions_of(self, topic: str) -> int | None:
        """As they were when a lane of the topic was held; None: none is."""
        return self._partitions.get(topic)

    def holds(self, parcel: Parcel) -> bool:
        """Whether its letters have to wait."""
        return self._key(parcel) in self._lanes

    def begin(self) -> list[Lane]:
        """Forget the lanes that are over, and return them."""
        over = {key: lane for key, lane in self._lanes.items() if lane.is_over}
        for key, lane in over.items():
            del self._lanes[key]
            self._sent[key] = lane.removed
        return list(over.values())

    def sort(self, parcels: Iterable[Parcel]) -> tuple[list[Parcel], list[Parcel]]:
        """Of parcels that wait, in their order: those to be sent now, and those that wait on."""
        ready: list[Parcel] = []
        again: list[Parcel] = []
        for parcel in parcels:
            key = self._key(parcel)
            sent = min(self._sent.get(key, 0), len(parcel.letters))
            if sent:
                self._sent[key] -= sent
                parcel = replace(parcel, letters=parcel.letters[sent:])
            if parcel.letters:
                (again if key in self._lanes else ready).append(parcel)
        return ready, again

    def end(self) -> None:
        """All that waited when it began was looked at."""
        self._sent.clear()
        held = {topic for topic, _ in self._lanes}
        self._partitions = {topic: count for topic, count in self._partitions.items() if topic in held}

    def _key(self, parcel: Parcel) -> Key:
        return parcel.topic, parcel.partition % self._partitions.get(parcel.topic, 1)
