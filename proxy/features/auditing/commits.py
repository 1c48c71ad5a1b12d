"""Counts the offsets that groups commit, as far as the broker accepts them."""

from __future__ import annotations

from kafka_sidecar.audit.contract import AuditedClient
from kafka_sidecar.codec.apis import APIS
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.group_requests import CommitRequests, Partition
from kafka_sidecar.proxy.features.auditing.connection import connection_of
from kafka_sidecar.proxy.features.auditing.counting import Counting, FrameParts, named
from kafka_sidecar.proxy.relay.exchange import Client
from kafka_sidecar.proxy.relay.watch import Tap, Watch


class CommitTap(Tap):
    """Watches the commits of one API and version."""

    __slots__ = ("api", "counting", "requests")

    def __init__(self, counting: Counting, key: int, version: int) -> None:
        self.counting = counting
        self.api = APIS[key].name
        self.requests = CommitRequests(key, version)

    def begin(self, client: Client, state: object, now: float) -> Watch:
        return CommitWatch(self, connection_of(client, state).audited)


class CommitWatch(Watch):
    """One OffsetCommit or TxnOffsetCommit."""

    __slots__ = ("_client", "_group", "_offsets", "_pieces", "_tap")

    def __init__(self, tap: CommitTap, client: AuditedClient) -> None:
        super().__init__()
        self._tap = tap
        self._client = client
        self._pieces = FrameParts()
        self._group = ""
        self._offsets: dict[Partition, int] = {}

    def request(self, data: bytes, start: int, end: int, last: bool) -> None:
        frame = self._pieces.add(data, start, end, last)
        if frame is None:
            return
        self._pieces = FrameParts()
        counting, client = self._tap.counting, self._client
        try:
            self._group, self._offsets = self._tap.requests.read(*frame)
        except CodecError:
            counting.stats.unreadable(self._tap.api)
        else:
            counting.groups.learn((client.client_id, client.host), self._group)

    def response(self, data: bytes, start: int, end: int, last: bool, now: float) -> None:
        frame = self._pieces.add(data, start, end, last)
        if frame is None or not self._offsets:
            return
        counting = self._tap.counting
        try:
            accepted = self._tap.requests.accepted(*frame)
        except CodecError:
            counting.stats.unreadable(self._tap.api)
            return
        for key, index in accepted:
            if (offset := self._offsets.get((key, index))) is not None:
                count = named(counting.auditor.committed, (self._client, self._group), (index, offset))
                counting.call(self._tap.api, key, count)
