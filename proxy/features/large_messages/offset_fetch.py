"""OffsetFetch: what the group's clients have committed, in place of what is stored for consumers of li.

A response without a comma has no stored form of li's, and is not decoded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from kafka_sidecar.codec.message import first_version, replace_fields
from kafka_sidecar.codec.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponseTopics,
)
from kafka_sidecar.large_messages.offsets import Committed, restore
from kafka_sidecar.large_messages.settings import Offsets, TopicSettings
from kafka_sidecar.plugins.effects import Steps
from kafka_sidecar.proxy.exchanges.limits import offload
from kafka_sidecar.proxy.exchanges.messages import MessageRun, OpenMessage, resolve
from kafka_sidecar.proxy.features.large_messages.offset_stage import is_li_client
from kafka_sidecar.proxy.relay.exchange import Client

NoteResumed = Callable[[str, int, int, int], None]  # topic, partition, S, C

FIRST_WITH_GROUPS = first_version(OffsetFetchResponse, "groups")
FIRST_WITH_IDS = first_version(OffsetFetchResponseTopics, "topic_id")


class StoredOffsets:
    """The stage of OffsetFetch that reads every response, but those to clients of li."""

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

    def start(self, client: Client, version: int) -> StoredOffsetsRun | None:
        versions = OffsetFetchResponse.declaration_.versions
        if versions is None or version not in versions or is_li_client(client.client_id, self._li_clients):
            return None
        return StoredOffsetsRun(self, version)

    def mode(self, topic: str | None) -> Offsets:
        """How offsets of a topic are stored."""
        settings = self._find(topic) if topic is not None else None
        return settings.offsets if settings is not None else "plain"


class StoredOffsetsRun(MessageRun):
    """One OffsetFetch and its response."""

    __slots__ = ("_resumed", "_shared", "_version")

    def __init__(self, shared: StoredOffsets, version: int) -> None:
        self._shared = shared
        self._version = version
        self._resumed: list[tuple[str, int, int, int]] = []  # topic, partition, S, C

    @property
    def wants_response(self) -> bool:
        return True

    def response(self, response: OpenMessage) -> Steps[None]:
        if b"," not in (yield from response.frame()):
            return
        message = yield from response.read(OffsetFetchResponse)
        if self._version >= FIRST_WITH_IDS:
            topics = (topic for group in message.groups for topic in group.topics)
            ids = [topic.topic_id for topic in topics if any(map(_is_changed, topic.partitions))]
            yield from resolve(sorted(ids), self._shared.name_of)
        response.replace((yield from offload(partial(self._restored, message), response.elements)))
        for resumed in self._resumed:
            self._shared.note_resumed(*resumed)

    def _restored(self, message: OffsetFetchResponse) -> OffsetFetchResponse:
        """The message with the offsets that clients have committed."""
        if self._version < FIRST_WITH_GROUPS:
            return replace_fields(message, topics=tuple(map(self._topic, message.topics)))
        return replace_fields(message, groups=tuple(map(self._group, message.groups)))

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
