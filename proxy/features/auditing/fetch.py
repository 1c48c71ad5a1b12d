"""Counts what a client fetches, once the response was sent whole.

What the client does not read of it is not delivered: records before the offset that it asked for, a last batch that the
broker has cut off, control batches, a response to a client that has closed its connection meanwhile. Records that an
interceptor hides are found by comparing the broker's response with the one that the client gets.

This file runs as it is and compiled (fetch.pxd holds the C types).
"""

from __future__ import annotations

from collections import defaultdict

from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.fetch_positions import Partition
from kafka_sidecar.proxy.features.auditing.counting import Counting, FrameParts, large_messages, named
from kafka_sidecar.proxy.relay.exchange import Client, LargeByPartition

try:
    import cython
except ImportError:
    from kafka_sidecar.codec import cython_shim as cython

if not cython.compiled:
    from kafka_sidecar.audit.counters import delivered_batch
    from kafka_sidecar.codec.fetch_counts import BatchRun, FetchWalk
    from kafka_sidecar.codec.fetch_positions import FetchPositions
    from kafka_sidecar.proxy.features.auditing.connection import (
        NO_CLIENT,
        AuditedConnection,
        CountingTap,
        connection_of,
    )
    from kafka_sidecar.proxy.relay.watch import Tap, Watch
else:
    from cython.cimports.kafka_sidecar.audit.counters import delivered_batch  # type: ignore[no-redef]
    from cython.cimports.kafka_sidecar.codec.fetch_counts import (  # type: ignore[no-redef]
        BatchRun,
        FetchWalk,
    )
    from cython.cimports.kafka_sidecar.codec.fetch_positions import FetchPositions  # type: ignore[no-redef]
    from cython.cimports.kafka_sidecar.proxy.features.auditing.connection import (  # type: ignore[no-redef]
        NO_CLIENT,
        AuditedConnection,
        CountingTap,
        connection_of,
    )
    from cython.cimports.kafka_sidecar.proxy.relay.watch import (  # type: ignore[no-redef]
        Tap,
        Watch,
    )

API = "Fetch"
MAX_KEPT = 64  # partitions of a request whose watch is kept for the next one
_MAX_KEPT = MAX_KEPT  # for C


def fetch_tap(counting: Counting, key: int, version: int) -> Tap:
    """What watches Fetch requests of this version."""
    return FetchTap(counting, version)


class FetchTap(CountingTap):
    """Watches all requests of one version, and counts what was delivered."""

    __slots__ = ("bucket_ms", "clock", "find_group")

    def __init__(self, counting: Counting, version: int) -> None:
        super().__init__(API, counting, version)
        self.bucket_ms = counting.bucket_ms
        self.clock = counting.clock
        self.find_group = counting.groups.find

    def begin(self, client: Client, state: object, now: float) -> Watch:
        known = connection_of(client, state)
        known.check_topics(self.counting)
        idle = known.take_idle()
        watch = cython.cast(FetchWatch, idle) if type(idle) is FetchWatch else None
        if watch is None or watch._tap is not self:
            watch = FetchWatch(self)
        watch._client, watch._state = client, known
        return watch

    def deliver(self, state: AuditedConnection, rows: list[BatchRun], now_s: float) -> None:
        """Count what a client was sent, soon."""
        for row in rows:
            row.owner, row.hidden, row.latency_s = state, 0, now_s - row.timestamp / 1000
        self.add(rows)

    def count(self, row: object) -> None:
        one = cython.cast(BatchRun, row)
        state = cython.cast(AuditedConnection, one.owner)
        count = one.count - one.hidden - one.aborted
        batch = delivered_batch(one.timestamp, count, one.size, one.first, one.last, one.latency_s)
        batch.hidden, batch.aborted = one.hidden, one.aborted
        group = self.find_group(state.origin)
        counter = state.fetch_counter(self.counting, group, one.key, one.index)
        if counter is not None:
            counter.count(batch)
        else:
            call = named(self.counting.auditor.delivered, (state.audited, group), (one.index, batch))
            self.counting.call(API, one.key, call)

    def count_large(self, state: AuditedConnection, row: BatchRun, group: str | None, large: LargeByPartition) -> None:
        """Call the auditor for the large messages of a batch, of which nothing is hidden. Before `count`."""
        found = large.get((row.key, row.index), ())
        messages = tuple([one for one in found if row.first <= one[0] <= row.last])
        if messages:
            batch, call = (row.index, row.timestamp, row.first, row.last), self.counting.auditor.delivered_large
            self.counting.call(API, row.key, large_messages(state.audited, group, batch, messages, call))


class FetchWatch(Watch):
    """One Fetch request."""

    __slots__ = (
        "_client", "_is_read", "_is_whole", "_large", "_now_s", "_parts", "_positions", "_received", "_state", "_tap",
        "_walk",
    )  # fmt: skip

    def __init__(self, tap: FetchTap) -> None:
        super().__init__()
        self._tap = tap
        self._client: Client | None = None
        self._state: AuditedConnection = NO_CLIENT
        self._parts: FrameParts | None = None  # of a request that arrives in pieces
        self._positions = FetchPositions(tap.version)
        self._received: list[BatchRun] | None = None  # what the broker has sent, where the client gets something else
        self._large: LargeByPartition | None = None
        self._walk: FetchWalk | None = None
        self._now_s = 0.0  # of the delivery
        self._is_whole = self._is_read = False  # the request was shown to its end; and its positions are known

    def done(self) -> None:
        state, self._state, self._client = self._state, NO_CLIENT, None
        if self._is_whole and self._positions.size() <= _MAX_KEPT:
            self._parts = self._received = self._large = self._walk = None
            self._is_whole = self._is_read = False
            self.skip = 0
            state.keep_idle(self)

    def request(self, data: bytes, start: int, end: int, last: bool) -> None:
        self._is_whole = last
        if not last or self._parts is not None:
            self._parts = self._parts or FrameParts()
            frame = self._parts.add(data, start, end, last)
            if frame is None:
                return
            data, start, end = frame
        try:
            self._positions.read(data, start, end, self._state.known_topic())
            self._is_read = True
        except CodecError:
            self._tap.counting.stats.unreadable(API)

    def received(self, frame: bytes) -> None:
        walk = self._begin(bucket_ms=0)
        self._feed(walk, frame, 0, len(frame), True)
        self._received = walk.take_rows()

    def large_messages(self, found: LargeByPartition) -> None:
        self._large = found

    def response(self, data: bytes, start: int, end: int, last: bool, now: float) -> None:
        walk = self._walk
        if walk is None:
            walk = self._walk = self._begin(self._tap.bucket_ms if self._received is None else 0)
        walk.skip = self.skip
        self._feed(walk, data, start, end, last)
        self.skip = walk.skip
        if not last:
            return
        if self._is_read and not self._positions.session_epoch:
            self._state.session_id = walk.session_id
        rows = walk.take_rows()
        if self._client is None or self._client.has_closed:
            return
        if self._received is not None:
            self._count_shown(self._received, rows)
        elif self._large is not None:
            self._count_shown(rows, rows)
        elif rows:
            self._tap.deliver(self._state, rows, self._now_s)

    def _begin(self, bucket_ms: int) -> FetchWalk:
        self._now_s = self._tap.clock()
        positions = self._positions if self._is_read else None
        return self._state.fetch_walk(self._tap.version, positions, bucket_ms, self._now_s * 1000)

    def _feed(self, walk: FetchWalk, data: bytes, start: int, end: int, last: bool) -> None:
        if not walk.try_feed(data, start, end, last):
            self._tap.counting.stats.unreadable(API)

    def _count_shown(self, received: list[BatchRun], shown: list[BatchRun]) -> None:
        """Count the broker's batches; what is missing of one in the client's response is hidden."""
        tap, state, now_s = self._tap, self._state, self._now_s
        tap.flush()
        group = tap.find_group(state.origin)
        by_partition: dict[Partition, list[BatchRun]] = defaultdict(list)
        for row in shown:
            by_partition[row.key, row.index].append(row)
        with tap.counting.auditor.counting:
            for row in received:
                rows = by_partition.get((row.key, row.index), ())
                left = sum([one.count for one in rows if row.first <= one.first and one.last <= row.last])
                row.owner, row.latency_s = state, now_s - row.timestamp / 1000
                row.hidden = 0 if row.aborted else max(row.count - left, 0)
                if self._large is not None and row.count > row.hidden + row.aborted:
                    tap.count_large(state, row, group, self._large)
                tap.try_count(row)
