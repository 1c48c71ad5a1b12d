"""Topic ids and their names (KIP-516): learned from what passes, asked for when unknown.

Produce from v13 on and Fetch from v13 on name topics by id alone; what is configured by name needs the way back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping

from kafka_sidecar.codec.message import field_reader, first_version, span
from kafka_sidecar.codec.messages.metadata import MetadataResponse, MetadataResponseTopic
from kafka_sidecar.codec.wire import NO_ID

LARGEST_LEARNED = 256 << 10  # a longer Metadata response would hold up the loop: its topics are asked for when needed
MOST_NAMES = 100_000
FIRST_WITH_IDS = first_version(MetadataResponseTopic, "topic_id")

# Ids of topics -> the names of those that there are. Raises OSError, CodecError.
Ask = Callable[[Collection[bytes]], Awaitable[Mapping[bytes, str]]]


class TopicNameCache:
    """The names of topics by their 16-byte ids. Ids are never used twice, so a name never becomes wrong."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._names: dict[bytes, str] = {}
        self._asking: dict[bytes, asyncio.Future[None]] = {}
        self.seen: Callable[[list[tuple[bytes, str]]], None] | None = None  # told of the topics that responses name

    def __len__(self) -> int:
        return len(self._names)

    def known(self, topic_id: bytes) -> str | None:
        return self._names.get(topic_id)

    def remember(self, topics: Iterable[tuple[bytes, str]]) -> None:
        for topic_id, name in topics:
            if len(self._names) >= MOST_NAMES and topic_id not in self._names:
                del self._names[next(iter(self._names))]
            self._names[topic_id] = name

    def learn(self, frame: bytes, at: int, version: int) -> None:
        """Remember the topics of a Metadata response whose body begins at frame[at]."""
        if version >= FIRST_WITH_IDS and len(frame) <= LARGEST_LEARNED:
            topics = topics_of(frame, at, version)
            self.remember(topics)
            if self.seen is not None:
                self.seen(topics)

    async def ask(self, topic_ids: Iterable[bytes]) -> None:
        """Learn the names of those topics that there are; `known` tells them. Each is asked for once at a time.

        Raises OSError or CodecError when the cluster cannot be asked.
        """
        wanted = {topic_id for topic_id in topic_ids if topic_id not in self._names} - {NO_ID}
        if new := wanted - self._asking.keys():
            self._asking |= dict.fromkeys(new, asyncio.ensure_future(self._asked(new)))
        for asking in {self._asking[topic_id] for topic_id in wanted}:
            await asyncio.shield(asking)

    async def _asked(self, topic_ids: Collection[bytes]) -> None:
        try:
            self.remember((await self._ask(topic_ids)).items())
        finally:
            for topic_id in topic_ids:
                del self._asking[topic_id]


def topics_of(frame: bytes, at: int, version: int) -> list[tuple[bytes, str]]:
    """(id, name) of the topics in a Metadata response (v10 or newer), body at frame[at]. Raises CodecError."""
    start, _ = span(MetadataResponse, "topics", version)(frame, at)
    topics, _ = field_reader(MetadataResponse, "topics", version)(frame, start)
    return [(topic.topic_id, topic.name) for topic in topics if topic.name and topic.topic_id != NO_ID]
