"""OffsetFetch: what the group's clients have committed, in place of what is stored for consumers of li.

The request is forwarded as it is. A response without a comma has no stored form of li's, and is not decoded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.envelope import Opened, decode_response, response_body_at
from kafka_sidecar.codec.message import counter, first_version, replace_fields
from kafka_sidecar.codec.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponseTopics,
)
from kafka_sidecar.large_messages.offsets import Committed, restore
from kafka_sidecar.large_messages.settings import Offsets, TopicSettings
from kafka_sidecar.proxy.exchanges.limits import offload
from kafka_sidecar.proxy.features.large_messages.offset_stage import is_li_client
from kafka_sidecar.proxy.relay.exchange import Begin, Client, Exchange, Forward, Outcome, Steps, TopicNames

NoteResumed = Callable[[str, int, int, int], None]  # topic, partition, S, C

FIRST_WITH_GROUPS = first_version(OffsetFetchResponse, "groups")
FIRST_WITH_IDS = first_version(OffsetFetchResponseTopics, "topic_id")


class OffsetFetchExchanges:
    """Looks into every response, but those to clients of li."""

    def __init__(
        self,
        find: Callable[[str], TopicSettings | None],
        name_of: Callable[[bytes], str | None],
        note_resumed: NoteResumed,
        li_clients: Sequence[str] = (),
    ) -> None:
        """
        Args:
            find: the settings of a topic; None: it has no large messages.
            name_of: a topic's name by its id, as far as it is known here.
            note_resumed: gets S and C of a partition of a topic with ``strict-li``, where they differ.
            li_clients: patterns of client ids: these clients get offsets as they are stored.
        """
        self._find = find
        self.name_of = name_of
        self.note_resumed = note_resumed
        self._li_clients = li_clients

    def exchange(self, version: int) -> Begin | None:
        """What looks into requests of this version, if it can be read."""
        versions = OffsetFetchResponse.declaration_.versions
        return partial(self.begin, version) if versions is not None and version in versions else None

    def begin(self, version: int, data: bytes, at: int, size: int, client: Client) -> Exchange | None:
        """As `exchange.Begin`, for one version."""
        return None if is_li_client(client.client_id, self._li_clients) else OffsetFetchExchange(self, version)

    def mode(self, topic: str | None) -> Offsets:
        """How offsets of a topic are stored."""
        settings = self._find(topic) if topic is not None else None
        return settings.offsets if settings is not None else "plain"


class OffsetFetchExchange(Exchange):
    """One OffsetFetch and its response."""

    __slots__ = ("_resumed", "_shared", "_version")

    def __init__(self, shared: OffsetFetchExchanges, version: int) -> None:
        self._shared = shared
        self._version = version
        self._resumed: list[tuple[str, int, int, int]] = []  # topic, partition, S, C

    def request(self, frame: bytes) -> Steps[Outcome]:
        return Forward(frame, wants_response=True)
        yield  # a generator, as every exchange

    def response(self, frame: bytes) -> Steps[bytes]:
        if b"," not in frame:
            return frame
        at = response_body_at(ApiKey.OFFSET_FETCH, self._version, frame)
        count = counter(OffsetFetchResponse, "partitions", self._version)(frame, at, len(frame))
        body = yield from offload(partial(decode_response, OffsetFetchResponse, frame, self._version), count)
        if unknown := self._unknown_ids(body.message):
            yield TopicNames(unknown)
        restored = yield from offload(partial(self._restored, body), count)
        for resumed in self._resumed:
            self._shared.note_resumed(*resumed)
        return restored

    def _unknown_ids(self, message: OffsetFetchResponse) -> tuple[bytes, ...]:
        """The ids of topics whose names are needed and not known here."""
        if self._version < FIRST_WITH_IDS:
            return ()
        topics = (topic for group in message.groups for topic in group.topics)
        ids = {topic.topic_id for topic in topics if any(map(_is_changed, topic.partitions))}
        return tuple(sorted(topic_id for topic_id in ids if self._shared.name_of(topic_id) is None))

    def _restored(self, body: Opened[OffsetFetchResponse]) -> bytes:
        """The frame with the offsets that clients have committed; the same one if all are stored as they are."""
        message = body.message
        if self._version < FIRST_WITH_GROUPS:
            topics = tuple(map(self._topic, message.topics))
            return body.with_message(replace_fields(message, topics=topics))
        return body.with_message(replace_fields(message, groups=tuple(map(self._group, message.groups))))

    def _group(self, group: OffsetFetchResponseGroup) -> OffsetFetchResponseGroup:
        return replace_fields(group, topics=tuple(map(self._topic, group.topics)))

    def _topic(self, topic: Any) -> Any:
        name = self._shared.name_of(topic.topic_id) if self._version >= FIRST_WITH_IDS else topic.name
        mode = self._shared.mode(name)
        if name is None or mode == "plain":
            return topic
        partitions = tuple(map(_restored, topic.partitions))
        if mode == "strict-li":
            self._resumed += [
                (name, of_client.partition_index, stored.committed_offset, of_client.committed_offset)
                for stored, of_client in zip(topic.partitions, partitions, strict=True)
                if stored.committed_offset < of_client.committed_offset
            ]
        return replace_fields(topic, partitions=partitions)


def _is_changed(partition: Any) -> bool:
    return _restored(partition) is not partition


def _restored(partition: Any) -> Any:
    """A partition of a response as the client is to get it; the leader epoch stays."""
    stored = Committed(partition.committed_offset, partition.metadata or "")
    committed = restore(stored)
    if committed is stored:
        return partition
    return replace_fields(partition, committed_offset=committed.offset, metadata=committed.metadata)
