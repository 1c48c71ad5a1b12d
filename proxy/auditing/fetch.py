"""Counts what a client fetches, once the response was sent whole.

What the client does not read of it is not delivered: records before the offset that it asked for, a last batch that the
broker has cut off, control batches, a response to a client that has closed its connection meanwhile. Records that an
interceptor hides are found by comparing the broker's response with the one that the client gets.
"""

from __future__ import annotations

from collections import defaultdict

from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.fetch_counts import FetchPositions, FetchWalk, Partition, Shown, fetch_positions
from kafka_sidecar.proxy.auditing.client import tapped
from kafka_sidecar.proxy.auditing.counting import Counting
from kafka_sidecar.proxy.auditing.pieces import Pieces
from kafka_sidecar.proxy.relay.exchange import Client
from kafka_sidecar.proxy.relay.tap import Tap, Watch

API = "Fetch"
READ_COMMITTED = 1


def fetch_tap(counting: Counting, key: int, version: int) -> Tap:
    """What watches Fetch requests of this version."""
    return lambda client, now: FetchWatch(counting, version, client)


class FetchWatch(Watch):
    """One Fetch request."""

    __slots__ = ("_client", "_counting", "_now_s", "_pieces", "_positions", "_received", "_state", "_version", "_walk")

    def __init__(self, counting: Counting, version: int, client: Client) -> None:
        self._counting = counting
        self._version = version
        self._client = client
        self._state = tapped(client)
        self._pieces: Pieces | None = None  # of a request that arrives in pieces
        self._positions: FetchPositions | None = None
        self._received: list[Shown] | None = None  # what the broker has sent, where the client gets something else
        self._walk: FetchWalk | None = None
        self._now_s = 0.0

    @property
    def skip(self) -> int:
        return self._walk.skip if self._walk is not None else 0

    @skip.setter
    def skip(self, size: int) -> None:
        if self._walk is not None:
            self._walk.skip = size

    def request(self, data: bytes, start: int, end: int, last: bool) -> None:
        if not last or self._pieces is not None:
            self._pieces = self._pieces or Pieces()
            frame = self._pieces.add(data, start, end, last)
            if frame is None:
                return
            data, start, end = frame
        try:
            self._positions = fetch_positions(data, start, end, self._version)
        except CodecError:
            self._counting.stats.unreadable(API)

    def received(self, frame: bytes) -> None:
        walk = self._begin(bucket_ms=0)
        self._feed(walk, frame, 0, len(frame))
        self._received = walk.rows

    def response(self, data: bytes, start: int, end: int, last: bool, now: float) -> None:
        walk = self._walk
        if walk is None:
            walk = self._walk = self._begin(self._counting.bucket_ms if self._received is None else 0)
        self._feed(walk, data, start, end)
        if not last:
            return
        if not walk.is_done and not walk.skip:
            self._counting.stats.unreadable(API)
        positions = self._positions
        if positions is not None and not positions.session_epoch:
            self._state.session_id = walk.session_id
        if self._client.has_closed:
            return
        if self._received is not None:
            self._count_shown(self._received, walk.rows)
        else:
            for row in walk.rows:
                self._count(row, 0)

    def _begin(self, bucket_ms: int) -> FetchWalk:
        self._now_s = now_s = self._counting.clock()
        positions = self._positions
        if positions is None:
            return FetchWalk(self._version, {}, False, bucket_ms, int(now_s * 1000))
        offsets = self._state.offsets_of(positions)
        is_committed_only = positions.isolation_level == READ_COMMITTED
        return FetchWalk(self._version, offsets, is_committed_only, bucket_ms, int(now_s * 1000))

    def _feed(self, walk: FetchWalk, data: bytes, start: int, end: int) -> None:
        try:
            walk.feed(data, start, end)
        except CodecError:
            walk.skip = 1 << 62  # nothing more of it is counted
            self._counting.stats.unreadable(API)

    def _count_shown(self, received: list[Shown], shown: list[Shown]) -> None:
        """Count the broker's batches; what is missing of one in the client's response is hidden."""
        by_partition: dict[Partition, list[Shown]] = defaultdict(list)
        for row in shown:
            by_partition[row[:2]].append(row)
        for row in received:
            key, index, _, count, _, first, last, aborted = row
            rows = by_partition.get((key, index), ())
            left = sum(one[3] for one in rows if first <= one[5] and one[6] <= last)
            self._count(row, max(count - left, 0) if not aborted else 0)

    def _count(self, row: Shown, hidden: int) -> None:
        key, index, timestamp, count, size, first, last, aborted = row
        counting, client = self._counting, self._state.audited
        group = counting.groups.find((client.client_id, client.host))
        latency_s = self._now_s - timestamp / 1000
        count -= hidden + aborted
        topic = counting.topics.get(key)
        if topic is None:
            rest = index, timestamp, count, size, first, last, latency_s, hidden, aborted
            topic = counting.topics.find(key, lambda name: counting.delivered(client, group, name, *rest))
        if topic is not None:
            try:
                counting.delivered(
                    client, group, topic, index, timestamp, count, size, first, last, latency_s, hidden, aborted
                )
            except Exception as error:  # noqa: BLE001 - an auditor must not cost a connection
                counting.stats.failed(API, error)
