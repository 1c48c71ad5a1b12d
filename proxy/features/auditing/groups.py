"""Requests of consumer groups: to which group a client belongs, and the offsets that groups commit.

These requests are rare: they are decoded as they are declared.
"""

from __future__ import annotations

from collections.abc import Callable

from kafka_sidecar.audit.contract import AuditedClient
from kafka_sidecar.codec.apis import APIS, ApiKey
from kafka_sidecar.codec.envelope import decode_request, decode_response, open_request
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.message import Message, field_reader, first_version
from kafka_sidecar.codec.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafka_sidecar.codec.messages.heartbeat import HeartbeatRequest
from kafka_sidecar.codec.messages.join_group import JoinGroupRequest
from kafka_sidecar.codec.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kafka_sidecar.codec.messages.offset_fetch import OffsetFetchRequest
from kafka_sidecar.codec.messages.sync_group import SyncGroupRequest
from kafka_sidecar.codec.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from kafka_sidecar.proxy.features.auditing.connection import connection_of
from kafka_sidecar.proxy.features.auditing.counting import Counting, FrameParts, named
from kafka_sidecar.proxy.relay.exchange import Client
from kafka_sidecar.proxy.relay.frames import Frames
from kafka_sidecar.proxy.relay.watch import Tap, Watch

MEMBERS: dict[int, type[Message]] = {
    ApiKey.JOIN_GROUP: JoinGroupRequest,
    ApiKey.SYNC_GROUP: SyncGroupRequest,
    ApiKey.HEARTBEAT: HeartbeatRequest,
    ApiKey.OFFSET_FETCH: OffsetFetchRequest,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: ConsumerGroupHeartbeatRequest,
}
"""Requests that name the group of a client."""

Request = type[OffsetCommitRequest] | type[TxnOffsetCommitRequest]
Response = type[OffsetCommitResponse] | type[TxnOffsetCommitResponse]
Partition = tuple[str | bytes, int]  # a topic's name, or in newer versions its id; the index
COMMITS: dict[int, tuple[Request, Response, int]] = {
    ApiKey.OFFSET_COMMIT: (
        OffsetCommitRequest,
        OffsetCommitResponse,
        first_version(OffsetCommitRequestTopic, "topic_id"),
    ),
    ApiKey.TXN_OFFSET_COMMIT: (
        TxnOffsetCommitRequest,
        TxnOffsetCommitResponse,
        first_version(TxnOffsetCommitRequestTopic, "topic_id"),
    ),
}
"""Of each API: request, response, first version with topic ids."""

_SEVERAL_GROUPS = first_version(OffsetFetchRequest, "groups")


def group_of(key: int, version: int) -> Callable[[bytes], str]:
    """The function that reads the group of a request frame: the first one, "" if there is none. Raises CodecError."""
    cls = MEMBERS[key]
    if key == ApiKey.OFFSET_FETCH and version >= _SEVERAL_GROUPS:  # KIP-709
        return _first_group
    read = field_reader(cls, "group_id", version)
    return lambda frame: str(read(frame, open_request(frame).body_at)[0])


def _first_group(frame: bytes) -> str:
    groups = decode_request(OffsetFetchRequest, frame)[1].message.groups
    return groups[0].group_id if groups else ""


class GroupTap(Tap):
    """Watches the requests of one API and version. Their responses do not matter."""

    __slots__ = ("_counting", "_group_of", "_key")

    def __init__(self, counting: Counting, key: int, version: int) -> None:
        self._counting = counting
        self._key = key
        self._group_of = group_of(key, version)

    def begin(self, client: Client, state: object, now: float) -> Watch:
        return GroupWatch(self, client)

    def show_request(
        self, client: Client, state: object, frames: Frames, data: bytes, at: int, size: int, waits: object, now: float
    ) -> Watch | None:
        if len(data) < at + size:
            return super().show_request(client, state, frames, data, at, size, waits, now)
        self.learn(client, data[at : at + size])
        return None

    def learn(self, client: Client, frame: bytes) -> None:
        """The request names a group."""
        try:
            group = self._group_of(frame)
        except CodecError:
            self._counting.stats.unreadable(APIS[self._key].name)
        else:
            self._counting.groups.learn((client.client_id, client.host), group)


class GroupWatch(Watch):
    """A request that arrives in pieces, or has an exchange."""

    __slots__ = ("_client", "_parts", "_tap")

    def __init__(self, tap: GroupTap, client: Client) -> None:
        super().__init__()
        self._tap = tap
        self._client = client
        self._parts = FrameParts()

    def request(self, data: bytes, start: int, end: int, last: bool) -> None:
        frame = self._parts.add(data, start, end, last)
        if frame is not None:
            self._tap.learn(self._client, frame[0][frame[1] : frame[2]])


class CommitTap(Tap):
    """Watches the commits of one API and version."""

    __slots__ = ("_by_id", "_request", "_response", "_version", "api", "counting")

    def __init__(self, counting: Counting, key: int, version: int) -> None:
        self.counting = counting
        self.api = APIS[key].name
        self._request, self._response, first_with_ids = COMMITS[key]
        self._by_id = version >= first_with_ids
        self._version = version

    def begin(self, client: Client, state: object, now: float) -> Watch:
        return CommitWatch(self, connection_of(client, state).audited)

    def read(self, frame: bytes) -> tuple[str, dict[Partition, int]]:
        """The group and the offsets of a request. Raises CodecError."""
        message = decode_request(self._request, frame)[1].message
        return message.group_id, {
            (topic.topic_id if self._by_id else topic.name, one.partition_index): one.committed_offset
            for topic in message.topics
            for one in topic.partitions
        }

    def accepted(self, frame: bytes) -> list[Partition]:
        """The partitions without an error in a response. Raises CodecError."""
        message = decode_response(self._response, frame, self._version).message
        return [
            (topic.topic_id if self._by_id else topic.name, one.partition_index)
            for topic in message.topics
            for one in topic.partitions
            if not one.error_code
        ]


class CommitWatch(Watch):
    """One OffsetCommit or TxnOffsetCommit: offsets count as far as the broker accepts them."""

    __slots__ = ("_client", "_group", "_offsets", "_parts", "_tap")

    def __init__(self, tap: CommitTap, client: AuditedClient) -> None:
        super().__init__()
        self._tap = tap
        self._client = client
        self._parts = FrameParts()
        self._group = ""
        self._offsets: dict[Partition, int] = {}

    def request(self, data: bytes, start: int, end: int, last: bool) -> None:
        frame = self._parts.add(data, start, end, last)
        if frame is None:
            return
        self._parts = FrameParts()
        counting, client = self._tap.counting, self._client
        try:
            self._group, self._offsets = self._tap.read(frame[0][frame[1] : frame[2]])
        except CodecError:
            counting.stats.unreadable(self._tap.api)
        else:
            counting.groups.learn((client.client_id, client.host), self._group)

    def response(self, data: bytes, start: int, end: int, last: bool, now: float) -> None:
        frame = self._parts.add(data, start, end, last)
        if frame is None or not self._offsets:
            return
        counting = self._tap.counting
        try:
            accepted = self._tap.accepted(frame[0][frame[1] : frame[2]])
        except CodecError:
            counting.stats.unreadable(self._tap.api)
            return
        for key, index in accepted:
            if (offset := self._offsets.get((key, index))) is not None:
                count = named(counting.auditor.committed, (self._client, self._group), (index, offset))
                counting.call(self._tap.api, key, count)
