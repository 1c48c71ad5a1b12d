"""The names of topics by id (KIP-516): learned from Metadata responses, requested when unknown.

Produce and Fetch from v13 on have topics by id alone; configuration by name needs their names. Older versions have
names alone; policies are shown the id where a recent response had it (KIP-940).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence

from kafka_sidecar.codec.apis import ErrorCode
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.message import field_reader, first_version, span
from kafka_sidecar.codec.messages.metadata import MetadataResponse, MetadataResponseTopic
from kafka_sidecar.codec.wire import NO_ID
from kafka_sidecar.plugins.bounded import Bounded

MAX_LEARNED_BYTES = 256 << 10  # a longer Metadata response would block the loop: its topics are requested when needed
MAX_NAMES = 100_000
MAX_ID_AGE_S = 300.0  # clients' metadata.max.age.ms: a client may believe as long that its topic was not recreated
MAX_REQUESTED = 1_000  # ids in one request
MAX_PENDING = 10_000  # ids that are requested or wait for it; more stay unknown
MAX_UNKNOWN = 10_000
UNKNOWN_S = 3.0  # how long an id that the cluster does not know is not requested again
MIN_INTERVAL_S = 0.02  # from one request to the next
FIRST_WITH_IDS = first_version(MetadataResponseTopic, "topic_id")

# Ids of topics -> the names of those that exist. Raises OSError, CodecError.
RequestNames = Callable[[Collection[bytes]], Awaitable[Mapping[bytes, str]]]


class TopicNameCache:
    """The names of topics by their 16-byte ids. Ids are never reused, so a name stays valid.

    Unknown ids are requested one request after the other, each with all ids that have been waiting for it.
    """

    def __init__(self, request_names: RequestNames, clock: Callable[[], float] = time.monotonic) -> None:
        self._request_names = request_names
        self._clock = clock  # seconds
        self._names = Bounded[bytes, str](MAX_NAMES)
        self._ids = Bounded[str, tuple[bytes, float]](MAX_NAMES)  # by name, with the time of the response
        self._unknown = Bounded[bytes, float](MAX_UNKNOWN)  # until when each is not requested again
        self._waiting: dict[bytes, asyncio.Future[None]] = {}  # for the next request
        self._requested: dict[bytes, asyncio.Future[None]] = {}
        self._requests: asyncio.Task[None] | None = None
        self.on_topics: Callable[[list[tuple[bytes, str]]], None] | None = None  # called with the topics of responses
        self.on_id: Callable[[bytes, str], None] | None = None  # called with each that is remembered

    def __len__(self) -> int:
        return len(self._names)

    def name_of(self, topic_id: bytes) -> str | None:
        return self._names.get(topic_id)

    @property
    def names(self) -> set[str]:
        """Of all topics that are known."""
        return {*self._ids, *self._names.values()}

    def id_of(self, name: str) -> bytes:
        """The id that the last response had for a name; zeros if there was none in the last `MAX_ID_AGE_S`."""
        found = self._ids.get(name)
        return found[0] if found is not None and self._clock() - found[1] < MAX_ID_AGE_S else NO_ID

    def last_id_of(self, name: str) -> bytes:
        """As `id_of`, however old the response is."""
        found = self._ids.get(name)
        return NO_ID if found is None else found[0]

    def remember(self, topics: Iterable[tuple[bytes, str]]) -> None:
        now = self._clock()
        for topic_id, name in topics:
            if topic_id == NO_ID:  # the topic does not exist
                self._ids.pop(name)
                continue
            self._names[topic_id] = name
            self._ids[name] = topic_id, now
            self._unknown.pop(topic_id)
            if self.on_id is not None:
                self.on_id(topic_id, name)

    def learn(self, topics: Sequence[tuple[bytes, str]]) -> None:
        """Remember the `learnt` topics of a Metadata response."""
        self.remember(topics)
        if topics and self.on_topics is not None:
            self.on_topics([topic for topic in topics if topic[0] != NO_ID])

    async def resolve(self, topic_ids: Iterable[bytes]) -> None:
        """Request the names of unknown ids; afterwards `name_of` has those that exist. Concurrent calls share requests.

        Raises OSError or CodecError if no broker responds.
        """
        now = self._clock()
        unknown = [
            topic_id
            for topic_id in dict.fromkeys(topic_ids)
            if topic_id not in self._names and topic_id != NO_ID and self._unknown.get(topic_id, 0.0) <= now
        ]
        for future in [self._future_of(topic_id) for topic_id in unknown]:
            if future is not None:
                await asyncio.shield(future)

    def _future_of(self, topic_id: bytes) -> asyncio.Future[None] | None:
        """What is done once the id was requested; None: too many are pending."""
        pending = self._requested.get(topic_id) or self._waiting.get(topic_id)
        if pending is not None or len(self._requested) + len(self._waiting) >= MAX_PENDING:
            return pending
        if self._requests is None:
            self._requests = asyncio.get_running_loop().create_task(self._request_all(), name="request topic names")
        return self._waiting.setdefault(topic_id, asyncio.get_running_loop().create_future())

    async def _request_all(self) -> None:
        try:
            while self._waiting:
                ids = list(self._waiting)[:MAX_REQUESTED]
                self._requested = {topic_id: self._waiting.pop(topic_id) for topic_id in ids}
                error = await self._request(ids)
                for future in self._requested.values():
                    _finish(future, error)
                self._requested = {}
                if self._waiting:
                    await asyncio.sleep(MIN_INTERVAL_S)
        finally:
            self._requests = None

    async def _request(self, topic_ids: Collection[bytes]) -> Exception | None:
        try:
            names = await self._request_names(topic_ids)
        except (OSError, CodecError) as error:
            return error
        self.remember(names.items())
        until = self._clock() + UNKNOWN_S
        for topic_id in topic_ids:
            if topic_id not in names:
                self._unknown.pop(topic_id)  # the newest is the last
                self._unknown[topic_id] = until
        return None


def _finish(future: asyncio.Future[None], error: Exception | None) -> None:
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)
        future.exception()  # is retrieved: its waiters may all have gone


def topics_of(frame: bytes, at: int, version: int) -> list[tuple[bytes, str]]:
    """(id, name) of the topics in a Metadata response (v10 or newer), body at frame[at]; the id is zeros if the broker
    does not say it. Raises CodecError.

    Of errors only that a topic does not exist is learned: others say what this client may see, or repeat an id and a
    name that it has put together.
    """
    start, _ = span(MetadataResponse, "topics", version)(frame, at)
    topics, _ = field_reader(MetadataResponse, "topics", version)(frame, start)
    return [
        (topic.topic_id, topic.name)
        for topic in topics
        if topic.name and (topic.error_code == ErrorCode.NONE or _does_not_exist(topic))
    ]


def _does_not_exist(topic: MetadataResponseTopic) -> bool:
    return topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and topic.topic_id == NO_ID


def learnt(frame: bytes, at: int, version: int) -> list[tuple[bytes, str]]:
    """As `topics_of`, of any version and with a limit of the time that it takes."""
    return topics_of(frame, at, version) if version >= FIRST_WITH_IDS and len(frame) <= MAX_LEARNED_BYTES else []
