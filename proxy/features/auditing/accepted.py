"""Records that members of share groups have accepted (KIP-932): offsets in ShareFetch and ShareAcknowledge requests."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import partial
from itertools import groupby
from typing import NamedTuple

from kafka_sidecar.audit.contract import AuditedClient
from kafka_sidecar.codec.envelope import decode_request, decode_response
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.messages.share_acknowledge import (
    AcknowledgementBatch,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
)
from kafka_sidecar.codec.messages.share_fetch import AcknowledgementBatch as FetchAcknowledgementBatch
from kafka_sidecar.codec.messages.share_fetch import ShareFetchRequest
from kafka_sidecar.proxy.features.auditing.client import tapped
from kafka_sidecar.proxy.features.auditing.counting import Counting
from kafka_sidecar.proxy.features.auditing.pieces import Pieces
from kafka_sidecar.proxy.relay.exchange import Client
from kafka_sidecar.proxy.relay.watch import Tap, TapWith, Watch

API = "ShareAcknowledge"
ACCEPT = 1  # of the types of acknowledgements


class Accepted(NamedTuple):
    """What a request accepts."""

    group: str
    ranges: list[tuple[bytes, int, int, int]]  # topic id, partition, first and last offset

    def count_but(self, refused: Collection[tuple[str | bytes, int]], counting: Counting, client: Client) -> None:
        """Call the auditor for the partitions of which the broker has taken the acknowledgements."""
        audited = tapped(client, client.tap_state).audited
        for key, index, first, last in self.ranges:
            if (key, index) not in refused:
                counting.call(API, key, partial(self._count, counting, audited, index, first, last))

    def _count(self, counting: Counting, client: AuditedClient, index: int, first: int, last: int, topic: str) -> None:
        counting.auditor.accepted(client, self.group, topic, index, first, last)


def accepted_in_fetch(frame: bytes) -> Accepted:
    """What a ShareFetch request accepts. Raises CodecError."""
    return _accepted(decode_request(ShareFetchRequest, frame)[1].message)


def share_acknowledge_tap(counting: Counting, key: int, version: int) -> Tap:
    """What watches ShareAcknowledge requests of this version."""
    return TapWith(lambda client: ShareAcknowledgeWatch(counting, version, client))


class ShareAcknowledgeWatch(Watch):
    """One ShareAcknowledge."""

    __slots__ = ("_accepted", "_client", "_counting", "_pieces", "_version")

    def __init__(self, counting: Counting, version: int, client: Client) -> None:
        super().__init__()
        self._counting = counting
        self._version = version
        self._client = client
        self._pieces = Pieces()
        self._accepted: Accepted | None = None

    def request(self, data: bytes, start: int, end: int, last: bool) -> None:
        frame = self._pieces.add(data, start, end, last)
        if frame is None:
            return
        self._pieces = Pieces()
        try:
            self._accepted = _accepted(
                decode_request(ShareAcknowledgeRequest, frame[0][frame[1] : frame[2]])[1].message
            )
        except CodecError:
            self._counting.stats.unreadable(API)

    def response(self, data: bytes, start: int, end: int, last: bool, now: float) -> None:
        frame = self._pieces.add(data, start, end, last)
        if frame is None or self._accepted is None or not self._accepted.ranges:
            return
        try:
            message = decode_response(ShareAcknowledgeResponse, frame[0][frame[1] : frame[2]], self._version).message
        except CodecError:
            self._counting.stats.unreadable(API)
            return
        if not message.error_code:
            refused = {
                (topic.topic_id, one.partition_index)
                for topic in message.responses
                for one in topic.partitions
                if one.error_code
            }
            self._accepted.count_but(refused, self._counting, self._client)


def _accepted(message: ShareFetchRequest | ShareAcknowledgeRequest) -> Accepted:
    return Accepted(
        message.group_id or "",
        [
            (topic.topic_id, one.partition_index, first, last)
            for topic in message.topics
            for one in topic.partitions
            for batch in one.acknowledgement_batches
            for first, last in _ranges(batch)
        ],
    )


def _ranges(batch: AcknowledgementBatch | FetchAcknowledgementBatch) -> Iterator[tuple[int, int]]:
    """The accepted offsets of a batch: its types are those of its offsets, or one type for all of them."""
    types = batch.acknowledge_types
    if len(types) == 1:
        if types[0] == ACCEPT:
            yield batch.first_offset, batch.last_offset
        return
    at = batch.first_offset
    for type_, same in groupby(types):
        size = len(list(same))
        if type_ == ACCEPT:
            yield at, at + size - 1
        at += size
