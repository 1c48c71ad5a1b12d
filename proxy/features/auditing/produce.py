"""Counts what a client produces: each batch once, with its result, after the response or once it is sure to have none.

The partitions of a request are those that the client has named; one that the sidecar has not forwarded was rejected by
it. An error DUPLICATE_SEQUENCE_NUMBER is a success at an unknown offset, as clients take it (KIP-98).

Requests and responses are read as they pass, and counted some at a time. What is not a success is counted at once.

This file runs as it is and compiled (produce.pxd holds the C types).
"""

from __future__ import annotations

from kafka_sidecar.audit.contract import NO_OFFSET, Result
from kafka_sidecar.codec.apis import ErrorCode
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.produce_counts import NOT_ANSWERED
from kafka_sidecar.proxy.features.auditing.counting import Counting, FrameParts, large_messages, named
from kafka_sidecar.proxy.relay.exchange import Client, LargeByPartition

try:
    import cython
except ImportError:
    from kafka_sidecar.codec import cython_shim as cython

if not cython.compiled:
    from kafka_sidecar.audit.counters import sent_batch
    from kafka_sidecar.codec.produce_counts import ProduceWalk, Sent, acknowledge
    from kafka_sidecar.proxy.features.auditing.connection import (
        NO_CLIENT,
        AuditedConnection,
        CountingTap,
        connection_of,
    )
    from kafka_sidecar.proxy.relay.watch import Tap, Watch
else:
    from cython.cimports.kafka_sidecar.audit.counters import sent_batch  # type: ignore[no-redef]
    from cython.cimports.kafka_sidecar.codec.produce_counts import (  # type: ignore[no-redef]
        ProduceWalk,
        Sent,
        acknowledge,
    )
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

API = "Produce"
ACKED, UNCONFIRMED, REJECTED = Result.ACKED, Result.UNCONFIRMED, Result.REJECTED
FAILED, UNKNOWN = Result.FAILED, Result.UNKNOWN
# For C.
_NO_OFFSET, _NOT_ANSWERED, _DUPLICATE = NO_OFFSET, NOT_ANSWERED, int(ErrorCode.DUPLICATE_SEQUENCE_NUMBER)

Partitions = set[tuple[str | bytes, int]]
NOTHING: list[Sent] = []  # of a watch that watches no request


def produce_tap(counting: Counting, key: int, version: int) -> Tap:
    """The tap of Produce requests of this version."""
    return ProduceTap(counting, version)


class ProduceTap(CountingTap):
    """Watches all requests of one version, and counts their batches."""

    __slots__ = ("attempts",)

    def __init__(self, counting: Counting, version: int) -> None:
        super().__init__(API, counting, version)
        self.attempts = counting.copies.attempts

    def begin(self, client: Client, state: object, now: float) -> Watch:
        known = connection_of(client, state)
        known.check_topics(self.counting)
        idle = known.take_idle()
        watch = cython.cast(ProduceWatch, idle) if type(idle) is ProduceWatch else None
        if watch is None or watch._tap is not self:
            watch = ProduceWatch(self)
        watch._client, watch._since = known, now
        return watch

    def end(
        self,
        client: AuditedConnection,
        sent: list[Sent],
        ending: Result | None,
        latency_s: float,
        forwarded: Partitions | None,
        was_abandoned: bool,
    ) -> None:
        """Count each batch of a request: with what the response says of it or, if ``ending`` is given, with that.

        Args:
            forwarded: the partitions that the broker got; None: all.
            was_abandoned: the client has closed before the response.
        """
        are_stored = ending is None
        for one in sent:
            if ending is None and not one.error:
                one.result = ACKED
            else:
                are_stored, one.result = False, _result(one, ending, forwarded)
            one.owner, one.latency_s = client, latency_s
        self.add(sent)
        if ending is not UNCONFIRMED and (self.attempts or was_abandoned or not are_stored):
            self.flush()
            self.counting.copies.settled(client.audited, sent, was_abandoned)

    def count(self, row: object) -> None:
        one = cython.cast(Sent, row)
        timestamp, base, client = one.timestamp, _NO_OFFSET, cython.cast(AuditedConnection, one.owner)
        if one.result is ACKED and not one.error:
            base = one.base_offset
            if one.append_time >= 0:
                timestamp = one.append_time  # the broker's time (LogAppendTime) is that which consumers see
        batch = sent_batch(timestamp, one.count, one.size, one.result, base, one.latency_s)
        counter = client.produce_counter(self.counting, one.key, one.index)
        if counter is not None:
            counter.count(batch)
        else:
            call = named(self.counting.auditor.produced, (client.audited,), (one.index, batch))
            self.counting.call(API, one.key, call)

    def count_large(
        self,
        client: AuditedConnection,
        sent: list[Sent],
        large: LargeByPartition,
        forwarded: Partitions | None,
        ending: Result | None,
    ) -> None:
        """Call the auditor for each batch with large messages: before `end` and `flush`, with the same arguments."""
        self.flush()
        call = self.counting.auditor.produced_large
        for one in sent:
            messages = tuple(large.get((one.key, one.index), ()))
            if messages:
                is_stored = ending is None and not one.error
                base = one.base_offset if is_stored else _NO_OFFSET
                last = base + one.count - 1 if base != _NO_OFFSET else base
                timestamp = one.append_time if is_stored and one.append_time >= 0 else one.timestamp
                result = ACKED if is_stored else _result(one, ending, forwarded)
                batch = one.index, timestamp, base, last
                self.counting.call(API, one.key, large_messages(client.audited, None, batch, messages, call, result))


class ProduceWatch(Watch):
    """One Produce request."""

    __slots__ = ("_client", "_forwarded", "_is_abandoned", "_large", "_parts", "_sent", "_since", "_tap", "_walk")

    def __init__(self, tap: ProduceTap) -> None:
        super().__init__()
        self._tap = tap
        self._client: AuditedConnection = NO_CLIENT
        self._since = 0.0  # when the request came
        self._walk: ProduceWalk | None = None  # of a request that arrives in pieces
        self._sent: list[Sent] = NOTHING
        self._forwarded: Partitions | None = None  # None: all
        self._large: LargeByPartition | None = None
        self._parts: FrameParts | None = None  # of a response that arrives in pieces
        self._is_abandoned = False

    def done(self) -> None:
        client, self._client = self._client, NO_CLIENT
        if self._walk is None and not self._is_abandoned:
            self._sent = NOTHING
            self._parts = self._forwarded = self._large = None
            self.skip = 0
            client.keep_idle(self)

    def request(self, data: bytes, start: int, end: int, last: bool) -> None:
        walk = self._walk
        if walk is None:
            version = self._tap.version
            walk = self._client.produce_walk(version) if last else ProduceWalk(version)
        walk.skip = self.skip
        if not walk.try_feed(data, start, end, last):
            self._tap.counting.stats.unreadable(API)
        self.skip = walk.skip
        self._walk = None if last else walk
        self._sent = walk.take_rows() if last else walk.rows

    def forwarded(self, frame: bytes) -> None:
        walk = ProduceWalk(self._tap.version)
        if not frame or walk.try_feed(frame, 0, len(frame), False):
            self._forwarded = {(one.key, one.index) for one in walk.rows}

    def large_messages(self, found: LargeByPartition) -> None:
        self._large = found

    def unanswered(self) -> None:
        self._end(UNCONFIRMED, 0)

    def abandoned(self) -> None:
        if not self._is_abandoned:
            self._is_abandoned = True
            self._tap.flush()
            self._tap.counting.copies.abandoned(self._client.audited, self._sent)

    def lost(self, why: str) -> None:
        self._end(UNKNOWN, 0)

    def response(self, data: bytes, start: int, end: int, last: bool, now: float) -> None:
        self.skip = 0
        if not last or self._parts is not None:
            self._parts = self._parts or FrameParts()
            frame = self._parts.add(data, start, end, last)
            if frame is None:
                return
            data, start, end = frame
        try:
            acknowledge(self._sent, data, start, end, self._tap.version)
        except CodecError:
            self._tap.counting.stats.unreadable(API)
            self._end(UNKNOWN, 0)
        else:
            self._end(None, now - self._since)

    def _end(self, ending: Result | None, latency_s: float) -> None:
        """Nothing more will be known of the request."""
        tap, sent, forwarded = self._tap, self._sent, self._forwarded
        if self._large is not None:
            tap.count_large(self._client, sent, self._large, forwarded, ending)
        tap.end(self._client, sent, ending, latency_s, forwarded, self._is_abandoned)
        if self._large is not None:
            tap.flush()


def _result(one: Sent, ending: Result | None, forwarded: Partitions | None) -> Result:
    if ending is UNKNOWN or (ending is None and one.error == _NOT_ANSWERED):
        return UNKNOWN
    if forwarded is not None and (one.key, one.index) not in forwarded:
        return REJECTED
    return ending or (ACKED if one.error == _DUPLICATE else FAILED)
