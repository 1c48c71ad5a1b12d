"""The names of topics by id (KIP-516): learned from Metadata responses, requested when unknown.

Produce and Fetch from v13 on have topics by id alone; configuration by name needs their names.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping

from kafka_sidecar.codec.message import field_reader, first_version, span
from kafka_sidecar.codec.messages.metadata import MetadataResponse, MetadataResponseTopic
from kafka_sidecar.codec.wire import NO_ID

MAX_LEARNED_BYTES = 256 << 10  # a longer Metadata response would block the loop: its topics are requested when needed
MAX_NAMES = 100_000
FIRST_WITH_IDS = first_version(MetadataResponseTopic, "topic_id")

# Ids of topics -> the names of those that exist. Raises OSError, CodecError.
RequestNames = Callable[[Collection[bytes]], Awaitable[Mapping[bytes, str]]]


class TopicNameCache:
    """The names of topics by their 16-byte ids. Ids are never reused, so a name stays valid."""

    def __init__(self, request_names: RequestNames) -> None:
        self._request_names = request_names
        self._names: dict[bytes, str] = {}
        self._pending: dict[bytes, asyncio.Future[None]] = {}
        self.on_topics: Callable[[list[tuple[bytes, str]]], None] | None = None  # called with the topics of responses

    def __len__(self) -> int:
        return len(self._names)

    def name_of(self, topic_id: bytes) -> str | None:
        return self._names.get(topic_id)

    def remember(self, topics: Iterable[tuple[bytes, str]]) -> None:
        for topic_id, name in topics:
            if len(self._names) >= MAX_NAMES and topic_id not in self._names:
                del self._names[next(iter(self._names))]
            self._names[topic_id] = name

    def learn(self, frame: bytes, at: int, version: int) -> None:
        """Remember the topics of a Metadata response whose body begins at frame[at]."""
        if version >= FIRST_WITH_IDS and len(frame) <= MAX_LEARNED_BYTES:
            topics = topics_of(frame, at, version)
            self.remember(topics)
            if self.on_topics is not None:
                self.on_topics(topics)

    async def resolve(self, topic_ids: Iterable[bytes]) -> None:
        """Request the names of unknown ids; afterwards `name_of` has those that exist. Concurrent calls share requests.

        Raises OSError or CodecError if no broker responds.
        """
        unknown = {topic_id for topic_id in topic_ids if topic_id not in self._names} - {NO_ID}
        if new := unknown - self._pending.keys():
            self._pending |= dict.fromkeys(new, asyncio.ensure_future(self._request(new)))
        for request in {self._pending[topic_id] for topic_id in unknown}:
            await asyncio.shield(request)

    async def _request(self, topic_ids: Collection[bytes]) -> None:
        try:
            self.remember((await self._request_names(topic_ids)).items())
        finally:
            for topic_id in topic_ids:
                del self._pending[topic_id]


def topics_of(frame: bytes, at: int, version: int) -> list[tuple[bytes, str]]:
    """(id, name) of the topics in a Metadata response (v10 or newer), body at frame[at]. Raises CodecError."""
    start, _ = span(MetadataResponse, "topics", version)(frame, at)
    topics, _ = field_reader(MetadataResponse, "topics", version)(frame, start)
    return [(topic.topic_id, topic.name) for topic in topics if topic.name and topic.topic_id != NO_ID]
