"""Requests of group members, which say to which group a client belongs."""

from __future__ import annotations

from kafka_sidecar.codec.apis import APIS
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.group_requests import GroupRequests
from kafka_sidecar.proxy.features.auditing.counting import Counting, FrameParts
from kafka_sidecar.proxy.relay.exchange import Client
from kafka_sidecar.proxy.relay.frames import Frames
from kafka_sidecar.proxy.relay.watch import Tap, Watch


class GroupTap(Tap):
    """Watches the requests of one API and version. Their responses do not matter."""

    __slots__ = ("_counting", "_key", "_requests")

    def __init__(self, counting: Counting, key: int, version: int) -> None:
        self._counting = counting
        self._key = key
        self._requests = GroupRequests(key, version)

    def begin(self, client: Client, state: object, now: float) -> Watch:
        return GroupWatch(self, client)

    def show_request(
        self, client: Client, state: object, frames: Frames, data: bytes, at: int, size: int, waits: object, now: float
    ) -> Watch | None:
        if len(data) < at + size:
            return super().show_request(client, state, frames, data, at, size, waits, now)
        self.learn(client, data, at, at + size)
        return None

    def learn(self, client: Client, data: bytes, start: int, end: int) -> None:
        """The request data[start:end] names a group."""
        try:
            group = self._requests.group(data, start, end)
        except CodecError:
            self._counting.stats.unreadable(APIS[self._key].name)
        else:
            self._counting.groups.learn((client.client_id, client.host), group)


class GroupWatch(Watch):
    """A request that arrives in pieces, or has an exchange."""

    __slots__ = ("_client", "_pieces", "_tap")

    def __init__(self, tap: GroupTap, client: Client) -> None:
        super().__init__()
        self._tap = tap
        self._client = client
        self._pieces = FrameParts()

    def request(self, data: bytes, start: int, end: int, last: bool) -> None:
        frame = self._pieces.add(data, start, end, last)
        if frame is not None:
            self._tap.learn(self._client, *frame)
