"""Counts what a client produces: each batch once, with its result, after the response or once it is sure to have none.

A usual request is noted when it comes, and so is its response. They are counted some at a time: what is used for that
is no longer in the CPU's caches when the next request comes, and takes several times as long to load as to run.

This file runs as it is and compiled (produce.pxd holds the C types).
"""

from __future__ import annotations

from kafka_sidecar.audit.contract import Result
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.proxy.features.auditing.counting import Counting
from kafka_sidecar.proxy.features.auditing.pieces import Pieces
from kafka_sidecar.proxy.relay.exchange import Client, LargeByPartition
from kafka_sidecar.proxy.relay.frames import Frames

try:
    import cython
except ImportError:
    from kafka_sidecar.codec import cython_shim as cython

if not cython.compiled:
    from kafka_sidecar.codec.produce_counts import ProduceWalk, Sent
    from kafka_sidecar.codec.produce_notes import ProduceNotes
    from kafka_sidecar.proxy.features.auditing.client import NO_CLIENT, TappedClient, tapped
    from kafka_sidecar.proxy.features.auditing.produce_results import ProduceResults
    from kafka_sidecar.proxy.relay.watch import Tap, Watch
else:
    from cython.cimports.kafka_sidecar.codec.produce_counts import ProduceWalk, Sent  # type: ignore[no-redef]
    from cython.cimports.kafka_sidecar.codec.produce_notes import ProduceNotes  # type: ignore[no-redef]
    from cython.cimports.kafka_sidecar.proxy.features.auditing.client import (  # type: ignore[no-redef]
        NO_CLIENT,
        TappedClient,
        tapped,
    )
    from cython.cimports.kafka_sidecar.proxy.features.auditing.produce_results import ProduceResults  # type: ignore[no-redef]
    from cython.cimports.kafka_sidecar.proxy.relay.watch import (  # type: ignore[no-redef]
        Tap,
        Watch,
    )

API = "Produce"
UNCONFIRMED, UNKNOWN = Result.UNCONFIRMED, Result.UNKNOWN
NOTHING_MORE = 1 << 62  # bytes: nothing more of this request is counted
MAX_ANSWERED = 256  # requests of a connection that are counted at a time
NOTHING: list[Sent] = []
_NOTHING_MORE, _MAX_ANSWERED, _US_PER_S = NOTHING_MORE, MAX_ANSWERED, 1_000_000  # for C


def produce_tap(counting: Counting, key: int, version: int) -> Tap:
    """What watches Produce requests of this version."""
    return ProduceTap(counting, version)


class ProduceTap(Tap):
    """What all requests of one version share."""

    __slots__ = ("counting", "notes", "results", "version")

    def __init__(self, counting: Counting, version: int) -> None:
        self.counting = counting
        self.results = ProduceResults(counting, version)
        self.version = version
        self.notes = ProduceNotes(version)  # to read one request

    def begin(self, client: Client, state: object, now: float) -> Watch:
        return ProduceWatch(self, tapped(client, state), now)

    def show_request(
        self,
        client: Client,
        state: object,
        frames: Frames,
        data: bytes,
        at: int,
        size: int,
        waits: object,
        now: float,
    ) -> Watch | None:
        if waits is None or len(data) < at + size or not self.notes.is_flexible:
            return Tap.show_request(self, client, state, frames, data, at, size, waits, now)
        known = cython.cast(TappedClient, state) if type(state) is TappedClient else tapped(client, state)
        queue: ProduceQueue | None = cython.cast(ProduceQueue, known.queue)
        if queue is None or queue._tap is not self:
            queue = ProduceQueue(self)
            known.queue = queue
        if queue.ask(known, data, at, at + size, now):
            return queue
        watch = ProduceWatch(self, known, now)
        watch.request(data, at, at + size, True)
        return watch


class ProduceQueue(Watch):
    """The usual requests of a connection, which arrive whole and are relayed, in their order."""

    __slots__ = ("_client", "_is_abandoned", "_is_due", "_notes", "_pieces", "_tap")

    def __init__(self, tap: ProduceTap) -> None:
        super().__init__()
        self._tap = tap
        self._client: TappedClient = NO_CLIENT
        self._notes = ProduceNotes(tap.version)
        self._pieces: Pieces | None = None  # of a response that arrives in pieces
        self._is_abandoned = False
        self._is_due = False  # will be counted in time

    def ask(self, client: TappedClient, data: bytes, start: int, end: int, now: float) -> bool:
        """Note a request that has a response; False: it is not a usual one."""
        if self._is_abandoned or not self._notes.ask(data, start, end, int(now * _US_PER_S)):
            return False
        self._client = client
        return True

    def show_response(self, frames: Frames, data: bytes, at: int, size: int, now: float) -> None:
        if len(data) < at + size:
            Watch.show_response(self, frames, data, at, size, now)
        else:
            self._answer(data, at, at + size, now)

    def response(self, data: bytes, start: int, end: int, last: bool, now: float) -> None:
        self._pieces = self._pieces or Pieces()
        frame = self._pieces.add(data, start, end, last)
        if frame is not None:
            self._pieces = None
            data, start, end = frame
            self._answer(data, start, end, now)

    def _answer(self, data: bytes, start: int, end: int, now: float) -> None:
        results, notes, now_us = self._tap.results, self._notes, int(now * _US_PER_S)
        if self._is_abandoned or not notes.answer(data, start, end, now_us):
            self.count_answered()
            notes.next_open()
            sent = notes.batches()
            latency_s = (now_us - notes.elapsed_us) / 1e6
            results.answered(self._client, sent, data, start, end, latency_s, None, self._is_abandoned)
            self._forget_counted()
        elif notes.answered >= _MAX_ANSWERED or notes.is_long() or not self._waits():
            self.count_answered()

    def _waits(self) -> bool:
        """Whether what is not counted yet will be counted soon."""
        if not self._is_due:
            self._is_due = self._tap.counting.count_later(self.count_due)
        return self._is_due

    def count_due(self) -> None:
        """Count what is not counted yet; for what is called in time."""
        self._is_due = False
        self.count_answered()
        self._notes.release()

    def abandoned(self) -> None:
        if not self._is_abandoned:
            self.count_answered()
            self._is_abandoned = True
            self._tap.counting.copies.abandoned(self._client.audited, self._notes.open_batches())

    def lost(self, why: str) -> None:
        self.count_answered()
        self._notes.next_open()
        self._tap.results.unknown(self._client, self._notes.batches(), None, self._is_abandoned)
        self._forget_counted()

    def count_answered(self) -> None:
        """Count what is not counted yet of the requests that have their response."""
        notes, results = self._notes, self._tap.results
        while notes.next_answered():
            if not results.attempts and notes.fits():
                results.count_stored(self._client, notes)
            else:
                answer = notes.response
                latency_s = notes.elapsed_us / _US_PER_S
                results.answered(self._client, notes.batches(), answer, 0, len(answer), latency_s, None, False)
        self._forget_counted()

    def _forget_counted(self) -> None:
        """Use their place again; the queue must not refer to the client, which refers to it, while nothing is open."""
        self._notes.compact()
        if not self._notes.open:
            self._client = NO_CLIENT


class ProduceWatch(Watch):
    """One Produce request."""

    __slots__ = ("_client", "_forwarded", "_is_abandoned", "_large", "_pieces", "_sent", "_since", "_tap", "_walk")

    def __init__(self, tap: ProduceTap, client: TappedClient, now: float) -> None:
        super().__init__()
        self._tap = tap
        self._client = client
        self._since = now  # when the request came
        self._walk: ProduceWalk | None = None  # of a request that is not a usual one
        self._sent: list[Sent] = NOTHING
        self._forwarded: set[tuple[str | bytes, int]] | None = None  # partitions; None: all
        self._large: LargeByPartition | None = None
        self._pieces: Pieces | None = None  # of a response that arrives in pieces
        self._is_abandoned = False

    def request(self, data: bytes, start: int, end: int, last: bool) -> None:
        notes = self._tap.notes
        if last and self._walk is None and notes.ask(data, start, end, 0):
            notes.next_open()
            self._sent = notes.batches()
            notes.compact()
        else:
            self._feed(data, start, end, last)

    def _feed(self, data: bytes, start: int, end: int, last: bool) -> None:
        if self._walk is None:
            self._walk = ProduceWalk(self._tap.version)
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

    def large_messages(self, found: LargeByPartition) -> None:
        self._large = found

    def unanswered(self) -> None:
        if self._large is not None:
            self._tap.results.count_large(self._client, self._sent, self._large, self._forwarded, UNCONFIRMED)
        self._tap.results.count(self._client, self._sent, self._forwarded, UNCONFIRMED, 0)

    def abandoned(self) -> None:
        if not self._is_abandoned:
            self._is_abandoned = True
            self._tap.counting.copies.abandoned(self._client.audited, self._sent)

    def lost(self, why: str) -> None:
        self._count_earlier()
        if self._large is not None:
            self._tap.results.count_large(self._client, self._sent, self._large, self._forwarded, UNKNOWN)
        self._tap.results.unknown(self._client, self._sent, self._forwarded, self._is_abandoned)

    def _count_earlier(self) -> None:
        """Requests that were answered before this one are counted before it."""
        queue: ProduceQueue | None = cython.cast(ProduceQueue, self._client.queue)
        if queue is not None:
            queue.count_answered()

    def response(self, data: bytes, start: int, end: int, last: bool, now: float) -> None:
        self.skip = 0
        if not last or self._pieces is not None:
            self._pieces = self._pieces or Pieces()
            frame = self._pieces.add(data, start, end, last)
            if frame is None:
                return
            data, start, end = frame
        latency_s = now - self._since
        self._count_earlier()
        results, large = self._tap.results, self._large
        if large is not None:
            results.count_large_answered(self._client, self._sent, data, start, end, large, self._forwarded)
        results.answered(self._client, self._sent, data, start, end, latency_s, self._forwarded, self._is_abandoned)
