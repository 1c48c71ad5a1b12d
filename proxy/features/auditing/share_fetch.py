"""Counts what members of share groups are sent, and what they accept of it (KIP-932).

A response has whole batches, of which only the offsets that it says are acquired are the member's. Acknowledgements of
what was acquired before are in the requests, and count once the broker has taken them.
"""

from __future__ import annotations

from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.share_fetch_counts import SharedBatch, ShareFetchWalk
from kafka_sidecar.proxy.features.auditing.accepted import Accepted, accepted_in_fetch
from kafka_sidecar.proxy.features.auditing.client import tapped
from kafka_sidecar.proxy.features.auditing.counting import Counting, large_messages
from kafka_sidecar.proxy.features.auditing.pieces import Pieces
from kafka_sidecar.proxy.relay.exchange import NO_LARGE, Client, LargeByPartition
from kafka_sidecar.proxy.relay.watch import Tap, TapWith, Watch

API = "ShareFetch"


def share_fetch_tap(counting: Counting, key: int, version: int) -> Tap:
    """What watches ShareFetch requests of this version."""
    return TapWith(lambda client: ShareFetchWatch(counting, version, client))


class ShareFetchWatch(Watch):
    """One ShareFetch request."""

    __slots__ = ("_accepted", "_client", "_counting", "_large", "_pieces", "_received", "_version", "_walk")

    def __init__(self, counting: Counting, version: int, client: Client) -> None:
        super().__init__()
        self._counting = counting
        self._version = version
        self._client = client
        self._pieces = Pieces()
        self._accepted: Accepted | None = None
        self._received: ShareFetchWalk | None = None  # what the broker has sent, where the client gets something else
        self._large = NO_LARGE
        self._walk = ShareFetchWalk(version)

    def request(self, data: bytes, start: int, end: int, last: bool) -> None:
        frame = self._pieces.add(data, start, end, last)
        if frame is None:
            return
        try:
            self._accepted = accepted_in_fetch(frame[0][frame[1] : frame[2]])
        except CodecError:
            self._counting.stats.unreadable(API)

    def received(self, frame: bytes) -> None:
        self._received = ShareFetchWalk(self._version)
        self._feed(self._received, frame, 0, len(frame))

    def large_messages(self, found: LargeByPartition) -> None:
        self._large = found

    def response(self, data: bytes, start: int, end: int, last: bool, now: float) -> None:
        walk = self._walk
        walk.skip = self.skip
        self._feed(walk, data, start, end)
        self.skip = walk.skip
        if not last:
            return
        if not walk.is_done and not walk.skip:
            self._counting.stats.unreadable(API)
        accepted = self._accepted
        if accepted is None:
            return
        if walk.is_done and not walk.error_code:
            accepted.count_but(walk.refused, self._counting, self._client)
        if not self._client.has_closed:
            self._count_acquired(accepted.group, self._received or walk)

    def _feed(self, walk: ShareFetchWalk, data: bytes, start: int, end: int) -> None:
        try:
            walk.feed(data, start, end)
        except CodecError:
            walk.skip = 1 << 62  # nothing more of it is counted
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
        counting, client = self._counting, tapped(self._client, self._client.tap_state).audited
        found = self._large.get((key, index), ()) if count > hidden else ()
        if messages := tuple(one for one in found if first <= one[0] <= last):
            batch, call = (index, timestamp, first, last), counting.auditor.acquired_large
            counting.call(API, key, large_messages(client, group, batch, messages, call, deliveries))
        rest = index, timestamp, count - hidden, size, first, last, now_s - timestamp / 1000, deliveries, hidden
        counting.call(API, key, lambda topic: counting.auditor.acquired(client, group, topic, *rest))


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
