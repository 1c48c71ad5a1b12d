"""Counts what a client produces: each batch once, with its result, after the response or once it is sure to have none.

The partitions of a request are those that the client has named; one that the sidecar has not forwarded was rejected by
it. An error DUPLICATE_SEQUENCE_NUMBER is a success at an unknown offset, as clients take it (KIP-98).

This file runs as it is and compiled (produce.pxd holds the C types).
"""

from __future__ import annotations

from kafka_sidecar.audit.contract import NO_OFFSET, Result
from kafka_sidecar.codec.apis import ErrorCode
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.produce_counts import NOT_ANSWERED
from kafka_sidecar.proxy.auditing.counting import Counting, named
from kafka_sidecar.proxy.auditing.pieces import Pieces
from kafka_sidecar.proxy.relay.exchange import Client

try:
    import cython
except ImportError:
    from kafka_sidecar.codec import cython_shim as cython

if not cython.compiled:
    from kafka_sidecar.audit.counters import ProduceCounter
    from kafka_sidecar.codec.produce_counts import ProduceWalk, Sent, acknowledge
    from kafka_sidecar.proxy.auditing.client import NO_CLIENT, TappedClient, tapped
    from kafka_sidecar.proxy.relay.watch import Tap, Watch
else:
    from cython.cimports.kafka_sidecar.audit.counters import ProduceCounter  # type: ignore[no-redef]
    from cython.cimports.kafka_sidecar.codec.produce_counts import (  # type: ignore[no-redef]
        ProduceWalk,
        Sent,
        acknowledge,
    )
    from cython.cimports.kafka_sidecar.proxy.auditing.client import (  # type: ignore[no-redef]
        NO_CLIENT,
        TappedClient,
        tapped,
    )
    from cython.cimports.kafka_sidecar.proxy.relay.watch import (  # type: ignore[no-redef]
        Tap,
        Watch,
    )

API = "Produce"
ACKED, UNCONFIRMED, REJECTED, FAILED, UNKNOWN = (
    Result.ACKED, Result.UNCONFIRMED, Result.REJECTED, Result.FAILED, Result.UNKNOWN,
)  # fmt: skip
NOTHING_MORE = 1 << 62  # bytes: nothing more of this request is counted
MAX_KEPT = 64  # rows of a watch for the next request
NOTHING: list[Sent] = []  # of a watch that watches no request
# For C.
_NOTHING_MORE, _NO_OFFSET, _NOT_ANSWERED, _MAX_KEPT = NOTHING_MORE, NO_OFFSET, NOT_ANSWERED, MAX_KEPT
_DUPLICATE = int(ErrorCode.DUPLICATE_SEQUENCE_NUMBER)


def produce_tap(counting: Counting, key: int, version: int) -> Tap:
    """What watches Produce requests of this version."""
    return ProduceTap(counting, version)


class ProduceTap(Tap):
    """What all requests of one version share."""

    __slots__ = ("attempts", "counting", "version")

    def __init__(self, counting: Counting, version: int) -> None:
        self.attempts = counting.copies.attempts
        self.counting = counting
        self.version = version

    def begin(self, client: Client, state: object, now: float) -> Watch:
        known = tapped(client, state)
        idle = known.take_idle()
        watch = cython.cast(ProduceWatch, idle) if type(idle) is ProduceWatch else None
        if watch is None or watch._tap is not self:
            watch = ProduceWatch(self)
        watch._client, watch._since = known, now
        return watch


class ProduceWatch(Watch):
    """One Produce request."""

    __slots__ = ("_client", "_forwarded", "_is_abandoned", "_is_whole", "_pieces", "_sent", "_since", "_tap", "_walk")

    def __init__(self, tap: ProduceTap) -> None:
        super().__init__()
        self._tap = tap
        self._client: TappedClient = NO_CLIENT
        self._since = 0.0  # when the request came
        self._walk = ProduceWalk(tap.version)
        self._sent: list[Sent] = NOTHING
        self._forwarded: set[tuple[str | bytes, int]] | None = None  # partitions; None: all
        self._pieces: Pieces | None = None  # of a response that arrives in pieces
        self._is_abandoned = self._is_whole = False  # whole: the request was shown to its end

    def done(self) -> None:
        state, self._client, self._sent = self._client, NO_CLIENT, NOTHING
        if self._is_whole and not self._is_abandoned and len(self._walk.rows) <= _MAX_KEPT:
            self._walk.restart()
            self._pieces = None
            self._is_whole = False
            self.skip = 0
            state.keep_idle(self)

    def request(self, data: bytes, start: int, end: int, last: bool) -> None:
        walk = self._walk
        self._is_whole = last
        if last and walk.read(data, start, end):
            self._sent = walk.rows
        else:
            self._feed(data, start, end, last)

    def _feed(self, data: bytes, start: int, end: int, last: bool) -> None:
        walk = self._walk
        walk.skip = self.skip
        try:
            walk.feed(data, start, end)
            self.skip = walk.skip
            if last and not walk.is_done:
                self._tap.counting.stats.unreadable(API)
        except CodecError:
            self.skip = _NOTHING_MORE
            self._tap.counting.stats.unreadable(API)
        self._sent = walk.rows

    def forwarded(self, frame: bytes) -> None:
        walk = ProduceWalk(self._tap.version)
        try:
            if frame:
                walk.feed(frame, 0, len(frame))
        except CodecError:
            return
        self._forwarded = {(one.key, one.index) for one in walk.rows}

    def unanswered(self) -> None:
        self._count_all(UNCONFIRMED, 0)

    def abandoned(self) -> None:
        if not self._is_abandoned:
            self._is_abandoned = True
            self._tap.counting.copies.abandoned(self._client.audited, self._sent)

    def lost(self, why: str) -> None:
        self._count_unknown()

    def _count_unknown(self) -> None:
        self._count_all(UNKNOWN, 0)
        self._tap.counting.copies.settled(self._client.audited, self._sent, self._is_abandoned)

    def response(self, data: bytes, start: int, end: int, last: bool, now: float) -> None:
        self.skip = 0
        if not last or self._pieces is not None:
            self._pieces = self._pieces or Pieces()
            frame = self._pieces.add(data, start, end, last)
            if frame is None:
                return
            data, start, end = frame
        try:
            acknowledge(self._sent, data, start, end, self._tap.version)
        except CodecError:
            self._tap.counting.stats.unreadable(API)
            self._count_unknown()
            return
        are_stored = self._count_all(None, now - self._since)
        if self._tap.attempts or self._is_abandoned or not are_stored:
            self._tap.counting.copies.settled(self._client.audited, self._sent, self._is_abandoned)

    def _count_all(self, ending: Result | None, latency_s: float) -> bool:
        """Count each batch: with what the response says of it or, if ``ending`` is given, with that.

        Returns whether the broker has stored all of them.
        """
        sent, place, are_stored = self._sent, 0, ending is None
        while place < len(sent):
            try:
                while place < len(sent):
                    one = sent[place]
                    place += 1
                    if ending is None and not one.error:
                        # The broker's time (LogAppendTime) is that which consumers see.
                        timestamp = one.timestamp if one.append_time < 0 else one.append_time
                        self._count(one, timestamp, ACKED, one.base_offset, latency_s)
                    else:
                        are_stored = False
                        self._count(one, one.timestamp, self._result(one, ending), _NO_OFFSET, latency_s)
            except Exception as error:  # noqa: BLE001 - an auditor must not cost a connection
                self._tap.counting.stats.failed(API, error)
        return are_stored

    def _result(self, one: Sent, ending: Result | None) -> Result:
        if ending is UNKNOWN or (ending is None and one.error == _NOT_ANSWERED):
            return UNKNOWN
        if self._forwarded is not None and (one.key, one.index) not in self._forwarded:
            return REJECTED
        return ending or (ACKED if one.error == _DUPLICATE else FAILED)

    def _count(self, one: Sent, timestamp: int, result: Result, base: int, latency_s: float) -> None:
        if one.counter is None:
            one.counter = self._client.produce_counter(self._tap.counting, one.key, one.index)
        if one.counter is not None:
            counter = cython.cast(ProduceCounter, one.counter)
            counter.count(timestamp, one.count, one.size, result, base, latency_s)
        else:
            counting = self._tap.counting
            rest = one.index, timestamp, one.count, one.size, result, base, latency_s
            counting.call(API, one.key, named(counting.auditor.produced, (self._client.audited,), rest))
