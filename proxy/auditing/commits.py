"""Counts the offsets that groups commit, as far as the broker accepts them."""

from __future__ import annotations

from collections.abc import Callable

from kafka_sidecar.codec.apis import APIS, ApiKey
from kafka_sidecar.codec.envelope import decode_request, decode_response
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kafka_sidecar.codec.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from kafka_sidecar.proxy.auditing.client import tapped
from kafka_sidecar.proxy.auditing.counting import Counting
from kafka_sidecar.proxy.auditing.pieces import Pieces
from kafka_sidecar.proxy.relay.exchange import Client
from kafka_sidecar.proxy.relay.watch import Tap, TapWith, Watch

REQUESTS: dict[int, type[OffsetCommitRequest] | type[TxnOffsetCommitRequest]] = {
    ApiKey.OFFSET_COMMIT: OffsetCommitRequest,
    ApiKey.TXN_OFFSET_COMMIT: TxnOffsetCommitRequest,
}
RESPONSES: dict[int, type[OffsetCommitResponse] | type[TxnOffsetCommitResponse]] = {
    ApiKey.OFFSET_COMMIT: OffsetCommitResponse,
    ApiKey.TXN_OFFSET_COMMIT: TxnOffsetCommitResponse,
}


def commit_tap(counting: Counting, key: int, version: int) -> Tap:
    """What watches commits of this API and version."""
    return TapWith(lambda client: CommitWatch(counting, key, version, client))


class CommitWatch(Watch):
    """One OffsetCommit or TxnOffsetCommit."""

    __slots__ = ("_client", "_counting", "_group", "_key", "_offsets", "_pieces", "_version")

    def __init__(self, counting: Counting, key: int, version: int, client: Client) -> None:
        super().__init__()
        self._counting = counting
        self._key = key
        self._version = version
        self._client = tapped(client, client.tap_state).audited
        self._pieces = Pieces()
        self._group = ""
        self._offsets: dict[tuple[str | bytes, int], int] = {}

    def request(self, data: bytes, start: int, end: int, last: bool) -> None:
        frame = self._pieces.add(data, start, end, last)
        if frame is not None:
            self._pieces = Pieces()
            self._guarded(lambda: self._read_request(frame[0][frame[1] : frame[2]]))

    def response(self, data: bytes, start: int, end: int, last: bool, now: float) -> None:
        frame = self._pieces.add(data, start, end, last)
        if frame is not None and self._offsets:
            self._guarded(lambda: self._read_response(frame[0][frame[1] : frame[2]]))

    def _guarded(self, read: Callable[[], None]) -> None:
        try:
            read()
        except CodecError:
            self._counting.stats.unreadable(APIS[self._key].name)

    def _read_request(self, frame: bytes) -> None:
        message = decode_request(REQUESTS[self._key], frame)[1].message
        self._group = message.group_id
        self._counting.groups.learn((self._client.client_id, self._client.host), message.group_id)
        self._offsets = {
            (topic.name or topic.topic_id, one.partition_index): one.committed_offset
            for topic in message.topics
            for one in topic.partitions
        }

    def _read_response(self, frame: bytes) -> None:
        message = decode_response(RESPONSES[self._key], frame, self._version).message
        for topic in message.topics:
            for one in topic.partitions:
                offset = self._offsets.get((topic.name or topic.topic_id, one.partition_index))
                if offset is not None and not one.error_code:
                    self._count(topic.name or topic.topic_id, one.partition_index, offset)

    def _count(self, key: str | bytes, index: int, offset: int) -> None:
        counting, client, group = self._counting, self._client, self._group
        api = APIS[self._key].name
        counting.call(api, key, lambda topic: counting.auditor.committed(client, group, topic, index, offset))
