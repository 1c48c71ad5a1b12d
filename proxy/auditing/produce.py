"""Counts what a client produces: each batch once, with its result, after the response or once it is sure to have none.

The partitions of a request are those that the client has named; one that the sidecar has not forwarded was rejected by
it. An error DUPLICATE_SEQUENCE_NUMBER is a success at an unknown offset, as clients take it (KIP-98).
"""

from __future__ import annotations

from collections.abc import Iterable

from kafka_sidecar.audit.contract import NO_OFFSET, AuditedClient, Result
from kafka_sidecar.codec.apis import ErrorCode
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.produce_counts import Acknowledged, ProduceWalk, Sent, acknowledged
from kafka_sidecar.proxy.auditing.client import tapped
from kafka_sidecar.proxy.auditing.counting import Counting
from kafka_sidecar.proxy.auditing.pieces import Pieces
from kafka_sidecar.proxy.relay.tap import Tap, Watch

API = "Produce"
Outcome = tuple[Result, int, int]  # result, base offset, append time
ACKED = Result.ACKED
LOST: Outcome = (Result.UNKNOWN, NO_OFFSET, -1)
SENT: Outcome = (Result.UNCONFIRMED, NO_OFFSET, -1)
REJECTED: Outcome = (Result.REJECTED, NO_OFFSET, -1)


def produce_tap(counting: Counting, key: int, version: int) -> Tap:
    """What watches Produce requests of this version."""
    return lambda client, now: ProduceWatch(counting, version, tapped(client).audited, now)


class ProduceWatch(Watch):
    """One Produce request."""

    __slots__ = ("_client", "_counting", "_forwarded", "_pieces", "_since", "_version", "_walk")

    def __init__(self, counting: Counting, version: int, client: AuditedClient, now: float) -> None:
        self._counting = counting
        self._version = version
        self._client = client
        self._since = now
        self._walk = ProduceWalk(version)
        self._forwarded: set[tuple[str | bytes, int]] | None = None  # partitions; None: all
        self._pieces: Pieces | None = None  # of a response that arrives in pieces

    @property
    def skip(self) -> int:
        return self._walk.skip

    @skip.setter
    def skip(self, size: int) -> None:
        self._walk.skip = size

    def request(self, data: bytes, start: int, end: int, last: bool) -> None:
        walk = self._walk
        try:
            walk.feed(data, start, end)
            if last and not walk.is_done:
                self._counting.stats.unreadable(API)
        except CodecError:
            walk.skip = 1 << 62
            self._counting.stats.unreadable(API)

    def forwarded(self, frame: bytes) -> None:
        walk = ProduceWalk(self._version)
        try:
            if frame:
                walk.feed(frame, 0, len(frame))
        except CodecError:
            return
        self._forwarded = {(key, index) for key, index, *_ in walk.rows}

    def unanswered(self) -> None:
        forwarded = self._forwarded
        self._settle(
            SENT if forwarded is None or (key, index) in forwarded else REJECTED for key, index, *_ in self._walk.rows
        )

    def lost(self, why: str) -> None:
        self._settle(LOST for _ in self._walk.rows)

    def response(self, data: bytes, start: int, end: int, last: bool, now: float) -> None:
        if not last or self._pieces is not None:
            self._pieces = self._pieces or Pieces()
            frame = self._pieces.add(data, start, end, last)
            if frame is None:
                return
            data, start, end = frame
        try:
            found = acknowledged(data, start, end, self._version)
        except CodecError:
            self._counting.stats.unreadable(API)
            self._settle(LOST for _ in self._walk.rows)
            return
        rows = self._walk.rows
        if self._forwarded is None and len(rows) == len(found) and self._count_acked(rows, found, now):
            return
        self._settle(self._match(rows, found), now)

    def _count_acked(self, rows: list[Sent], found: list[Acknowledged], now: float) -> bool:
        """The usual case, in few steps: all partitions of audited topics, in the same order, without an error.

        Otherwise False, and nothing is counted.
        """
        counting = self._counting
        named = counting.topics.get
        for row, answer in zip(rows, found, strict=True):
            if answer[2] or row[1] != answer[1] or row[0] != answer[0] or named(row[0]) is None:
                return False
        client, produced, latency_s = self._client, counting.produced, now - self._since
        for (key, index, count, size, timestamp), (_, _, _, base, time) in zip(rows, found, strict=True):
            topic = named(key)
            assert topic is not None
            try:
                produced(client, topic, index, timestamp if time < 0 else time, count, size, ACKED, base, latency_s)
            except Exception as error:  # noqa: BLE001 - an auditor must not cost a connection
                counting.stats.failed(API, error)
        return True

    def _match(self, rows: list[Sent], found: list[Acknowledged]) -> Iterable[Outcome]:
        """The result of each batch; batches of one partition follow each other (only old formats have several)."""
        results = {(key, index): (error, base, time) for key, index, error, base, time in found}
        forwarded, next_base = self._forwarded, dict[tuple[str | bytes, int], int]()
        for key, index, count, *_ in rows:
            partition = key, index
            result = results.get(partition)
            if result is None:
                yield LOST
                continue
            if result[0] and forwarded is not None and partition not in forwarded:
                yield REJECTED
                continue
            outcome, base, time = _outcome((key, index, *result))
            base = next_base.get(partition, base)
            if base >= 0:
                next_base[partition] = base + count
            yield outcome, base, time

    def _settle(self, outcomes: Iterable[Outcome], now: float | None = None) -> None:
        rows, self._walk.skip = self._walk.rows, 0
        for row, outcome in zip(rows, outcomes, strict=True):
            self._count(row, outcome, self._since if now is None else now)

    def _count(self, row: Sent, outcome: Outcome, now: float) -> None:
        key, index, count, size, timestamp = row
        result, base, time = outcome
        if time >= 0:
            timestamp = time  # the broker's (LogAppendTime), which consumers see too
        client, latency_s, counting = self._client, now - self._since, self._counting
        topic = counting.topics.get(key)
        if topic is None:
            arguments = index, timestamp, count, size, result, base, latency_s
            topic = counting.topics.find(key, lambda name: counting.produced(client, name, *arguments))
        if topic is not None:
            try:
                counting.produced(client, topic, index, timestamp, count, size, result, base, latency_s)
            except Exception as error:  # noqa: BLE001 - an auditor must not cost a connection
                counting.stats.failed(API, error)


def _outcome(found: Acknowledged) -> Outcome:
    _, _, error, base, time = found
    if not error:
        return Result.ACKED, base, time
    if error == ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
        return Result.ACKED, NO_OFFSET, -1
    return Result.FAILED, NO_OFFSET, -1
