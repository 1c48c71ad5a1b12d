"""Counts what members of share groups are sent, and what they accept of it (KIP-932).

A response has whole batches, of which only the offsets that it says are acquired are the member's. Acknowledgements of
what was acquired before are in the requests, and count once the broker has taken them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import partial
from itertools import groupby
from typing import NamedTuple

from kafka_sidecar.audit.contract import AuditedClient
from kafka_sidecar.audit.counters import BatchCount
from kafka_sidecar.codec.envelope import decode_request, decode_response
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.fetch_counts import SharedBatch, ShareFetchWalk
from kafka_sidecar.codec.messages.share_acknowledge import (
    AcknowledgementBatch,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
)
from kafka_sidecar.codec.messages.share_fetch import AcknowledgementBatch as FetchAcknowledgementBatch
from kafka_sidecar.codec.messages.share_fetch import ShareFetchRequest
from kafka_sidecar.proxy.features.auditing.connection import connection_of
from kafka_sidecar.proxy.features.auditing.counting import Counting, FrameParts, large_messages, named
from kafka_sidecar.proxy.relay.exchange import NO_LARGE, Client, LargeByPartition
from kafka_sidecar.proxy.relay.watch import Tap, TapWith, Watch

API, ACKNOWLEDGE_API = "ShareFetch", "ShareAcknowledge"
ACCEPT = 1  # of the types of acknowledgements


def share_fetch_tap(counting: Counting, key: int, version: int) -> Tap:
    """What watches ShareFetch requests of this version."""
    return TapWith(lambda client: ShareFetchWatch(counting, version, client))


def share_acknowledge_tap(counting: Counting, key: int, version: int) -> Tap:
    """What watches ShareAcknowledge requests of this version."""
    return TapWith(lambda client: ShareAcknowledgeWatch(counting, version, client))


class Accepted(NamedTuple):
    """What a request accepts."""

    group: str
    ranges: list[tuple[bytes, int, int, int]]  # topic id, partition, first and last offset

    def count_but(self, refused: Collection[tuple[str | bytes, int]], counting: Counting, client: Client) -> None:
        """Call the auditor for the partitions of which the broker has taken the acknowledgements."""
        audited = connection_of(client, client.tap_state).audited
        for key, index, first, last in self.ranges:
            if (key, index) not in refused:
                counting.call(ACKNOWLEDGE_API, key, partial(self._count, counting, audited, index, first, last))

    def _count(self, counting: Counting, client: AuditedClient, index: int, first: int, last: int, topic: str) -> None:
        counting.auditor.accepted(client, self.group, topic, index, first, last)


class ShareFetchWatch(Watch):
    """One ShareFetch request."""

    __slots__ = ("_accepted", "_client", "_counting", "_large", "_parts", "_received", "_version", "_walk")

    def __init__(self, counting: Counting, version: int, client: Client) -> None:
        super().__init__()
        self._counting = counting
        self._version = version
        self._client = client
        self._parts = FrameParts()
        self._accepted: Accepted | None = None
        self._received: ShareFetchWalk | None = None  # what the broker has sent, where the client gets something else
        self._large = NO_LARGE
        self._walk = ShareFetchWalk(version)

    def request(self, data: bytes, start: int, end: int, last: bool) -> None:
        frame = self._parts.add(data, start, end, last)
        if frame is None:
            return
        try:
            request = decode_request(ShareFetchRequest, frame[0][frame[1] : frame[2]])[1].message
        except CodecError:
            self._counting.stats.unreadable(API)
        else:
            self._accepted = _accepted(request)

    def received(self, frame: bytes) -> None:
        self._received = ShareFetchWalk(self._version)
        self._feed(self._received, frame, 0, len(frame), last=True)

    def large_messages(self, found: LargeByPartition) -> None:
        self._large = found

    def response(self, data: bytes, start: int, end: int, last: bool, now: float) -> None:
        walk = self._walk
        walk.skip = self.skip
        self._feed(walk, data, start, end, last)
        self.skip = walk.skip
        if not last:
            return
        accepted = self._accepted
        if accepted is None:
            return
        if walk.is_done and not walk.error_code:
            accepted.count_but(walk.refused, self._counting, self._client)
        if not self._client.has_closed:
            self._count_acquired(accepted.group, self._received or walk)

    def _feed(self, walk: ShareFetchWalk, data: bytes, start: int, end: int, last: bool) -> None:
        if not walk.try_feed(data, start, end, last):
            self._counting.stats.unreadable(API)

    def _count_acquired(self, group: str, received: ShareFetchWalk) -> None:
        """Count the broker's batches as far as the client has acquired them; what it is not shown of them is hidden."""
        shown = self._walk.rows
        now_s = self._counting.clock()
        batches: dict[tuple[str | bytes, int], list[SharedBatch]] = {}
        for row in received.rows:
            batches.setdefault(row[:2], []).append(row)
        for key, index, first, last, deliveries in self._walk.acquired:
            for batch in batches.get((key, index), ()):
                if batch[5] <= last and batch[6] >= first:
                    part = _part(batch, first, last)
                    left = sum(_records(one, *part[5:]) for one in shown if one[:2] == part[:2])
                    self._count(group, part, max(part[3] - left, 0), deliveries, now_s)

    def _count(self, group: str, part: SharedBatch, hidden: int, deliveries: int, now_s: float) -> None:
        key, index, timestamp, count, size, first, last = part
        counting, client = self._counting, connection_of(self._client, self._client.tap_state).audited
        found = self._large.get((key, index), ()) if count > hidden else ()
        if messages := tuple(one for one in found if first <= one[0] <= last):
            batch, call = (index, timestamp, first, last), counting.auditor.acquired_large
            counting.call(API, key, large_messages(client, group, batch, messages, call, deliveries))
        acquired = BatchCount(
            timestamp, count - hidden, size, first_offset=first, last_offset=last,
            latency_s=now_s - timestamp / 1000, hidden=hidden, deliveries=deliveries,
        )  # fmt: skip
        counting.call(API, key, named(counting.auditor.acquired, (client, group), (index, acquired)))


class ShareAcknowledgeWatch(Watch):
    """One ShareAcknowledge."""

    __slots__ = ("_accepted", "_client", "_counting", "_parts", "_version")

    def __init__(self, counting: Counting, version: int, client: Client) -> None:
        super().__init__()
        self._counting = counting
        self._version = version
        self._client = client
        self._parts = FrameParts()
        self._accepted: Accepted | None = None

    def request(self, data: bytes, start: int, end: int, last: bool) -> None:
        frame = self._parts.add(data, start, end, last)
        if frame is None:
            return
        self._parts = FrameParts()
        try:
            self._accepted = _accepted(
                decode_request(ShareAcknowledgeRequest, frame[0][frame[1] : frame[2]])[1].message
            )
        except CodecError:
            self._counting.stats.unreadable(ACKNOWLEDGE_API)

    def response(self, data: bytes, start: int, end: int, last: bool, now: float) -> None:
        frame = self._parts.add(data, start, end, last)
        if frame is None or self._accepted is None or not self._accepted.ranges:
            return
        try:
            message = decode_response(ShareAcknowledgeResponse, frame[0][frame[1] : frame[2]], self._version).message
        except CodecError:
            self._counting.stats.unreadable(ACKNOWLEDGE_API)
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


def _part(batch: SharedBatch, first: int, last: int) -> SharedBatch:
    """The part of a batch between two offsets. Of a compacted batch, records in proportion to the offsets."""
    key, index, timestamp, _, size, begin, end = batch
    first, last = max(first, begin), min(last, end)
    records = _records(batch, first, last)
    return key, index, timestamp, records, size * (last - first + 1) // (end - begin + 1), first, last


def _records(batch: SharedBatch, first: int, last: int) -> int:
    _, _, _, count, _, begin, end = batch
    offsets = min(last, end) - max(first, begin) + 1
    return count * offsets // (end - begin + 1) if offsets > 0 else 0
