"""Requests of group members, which say to which group a client belongs."""

from __future__ import annotations

from kafka_sidecar.codec.apis import APIS
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.proxy.auditing.counting import Counting
from kafka_sidecar.proxy.auditing.groups import named_group
from kafka_sidecar.proxy.auditing.pieces import Pieces
from kafka_sidecar.proxy.relay.exchange import Client
from kafka_sidecar.proxy.relay.watch import Tap, TapWith, Watch


def group_tap(counting: Counting, key: int, version: int) -> Tap:
    """What watches requests of this API and version."""
    return TapWith(lambda client: GroupWatch(counting, key, version, client))


class GroupWatch(Watch):
    """One request that names a group."""

    __slots__ = ("_client", "_counting", "_key", "_pieces", "_version")

    def __init__(self, counting: Counting, key: int, version: int, client: Client) -> None:
        super().__init__()
        self._counting = counting
        self._key = key
        self._version = version
        self._client = client.client_id, client.host
        self._pieces = Pieces()

    def request(self, data: bytes, start: int, end: int, last: bool) -> None:
        frame = self._pieces.add(data, start, end, last)
        if frame is None:
            return
        try:
            self._counting.groups.learn(self._client, named_group(self._key, self._version, frame[0], frame[1]))
        except CodecError:
            self._counting.stats.unreadable(APIS[self._key].name)
