"""The consumer groups of connections, from requests that name them, while a reader wants them.

Members send one every few seconds. A Fetch names no group: that of other requests of the same client id and address is
taken, which may come on another connection, to the group's coordinator.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.envelope import open_request
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.message import Message, field_reader
from kafka_sidecar.codec.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafka_sidecar.codec.messages.heartbeat import HeartbeatRequest
from kafka_sidecar.codec.messages.join_group import JoinGroupRequest
from kafka_sidecar.codec.messages.offset_commit import OffsetCommitRequest
from kafka_sidecar.codec.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kafka_sidecar.codec.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from kafka_sidecar.codec.messages.sync_group import SyncGroupRequest
from kafka_sidecar.plugins.bounded import Bounded
from kafka_sidecar.proxy.relay.exchange import Client
from kafka_sidecar.proxy.relay.frames import Frames
from kafka_sidecar.proxy.relay.watch import Tap, Watch
from kafka_sidecar.proxy.server.admin.live.looking import Looking
from kafka_sidecar.proxy.server.server import Server

if TYPE_CHECKING:
    from kafka_sidecar.proxy.features.auditing.counting import Groups

MAX_CONNECTIONS = 10_000
MAX_NAME_CHARS = 249  # as of topics: what is longer is cut
MAX_FRAME_BYTES = 64 << 10  # a longer request, such as a commit of very many partitions, is not read

NAMES: dict[int, type[Message]] = {
    ApiKey.JOIN_GROUP: JoinGroupRequest,
    ApiKey.SYNC_GROUP: SyncGroupRequest,
    ApiKey.HEARTBEAT: HeartbeatRequest,
    ApiKey.OFFSET_COMMIT: OffsetCommitRequest,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: ConsumerGroupHeartbeatRequest,
    ApiKey.SHARE_GROUP_HEARTBEAT: ShareGroupHeartbeatRequest,
    ApiKey.STREAMS_GROUP_HEARTBEAT: StreamsGroupHeartbeatRequest,
}


class ConnectionGroups:
    """Those that were named since the first reader."""

    def __init__(self, server: Server) -> None:
        self._looking = Looking(server, self.tap, self._forget)
        self._named = Bounded[int, str](MAX_CONNECTIONS)  # by number of the connection
        self._groups: Groups | None = None  # by client id and address

    def look(self) -> None:
        """A reader wants them: learn from here on."""
        if self._groups is None:
            from kafka_sidecar.proxy.features.auditing.counting import Groups

            self._groups = Groups(time.monotonic)
        self._looking.extend()

    def _forget(self) -> None:
        self._named.clear()
        self._groups = None

    def tap(self, key: int, version: int) -> Tap | None:
        """What reads the group of requests of this API and version, if they name one."""
        return GroupTap(self, NAMES[key], version) if key in NAMES else None

    def learn(self, client: Client, group: str) -> None:
        """A request of this client has named a group."""
        if group and self._groups is not None:
            group = group[:MAX_NAME_CHARS]
            self._named[client.number] = group
            self._groups.learn((client.client_id, client.host), group)

    def of(self, number: int, client_id: str | None, host: str | None, reads: bool) -> str | None:
        """The group of a connection. ``reads``: whether it fetches, and belongs to that of its client id."""
        if (named := self._named.get(number)) is not None or not reads or self._groups is None:
            return named
        return self._groups.find((client_id, host))


class GroupTap(Tap):
    """Watches the requests of one API and version. Their responses do not matter."""

    __slots__ = ("_group_of", "_groups")

    def __init__(self, groups: ConnectionGroups, message: type[Message], version: int) -> None:
        self._groups = groups
        read = field_reader(message, "group_id", version)
        self._group_of: Callable[[bytes], str] = lambda frame: str(read(frame, open_request(frame).body_at)[0])

    def begin(self, client: Client, state: object, now: float) -> Watch:
        return GroupWatch(self, client)

    def show_request(
        self, client: Client, state: object, frames: Frames, data: bytes, at: int, size: int, waits: object, now: float
    ) -> Watch | None:
        if len(data) >= at + size:
            self.learn(client, data, at, at + size)
        return None  # one that comes in pieces is not waited for: the next one will do

    def learn(self, client: Client, data: bytes, start: int, end: int) -> None:
        """The request data[start:end] names a group."""
        if end - start <= MAX_FRAME_BYTES:
            try:
                self._groups.learn(client, self._group_of(data[start:end]))
            except CodecError:
                return  # the broker rejects it


class GroupWatch(Watch):
    """A request that an exchange looks into, and is shown whole."""

    __slots__ = ("_client", "_tap")

    def __init__(self, tap: GroupTap, client: Client) -> None:
        super().__init__()
        self._tap = tap
        self._client = client

    def request(self, data: bytes, start: int, end: int, last: bool) -> None:
        if last:
            self._tap.learn(self._client, data, start, end)

    def show_response(self, frames: Frames, data: bytes, at: int, size: int, now: float) -> None:
        """It does not matter."""
