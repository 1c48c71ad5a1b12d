"""Batches that a client sends again because it got no response: without idempotence a broker stores both copies.

A producer that sends the same bytes again is recognised by client, partition, number of records, size, timestamp and
CRC of the batch. Only what clients did not wait for is remembered, so a batch that is acknowledged as usual costs
nothing here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kafka_sidecar.audit.contract import AuditedClient
from kafka_sidecar.codec.apis import ErrorCode
from kafka_sidecar.codec.produce_counts import NOT_ANSWERED, Sent

MAX_BATCHES = 10_000
# Errors after which a batch may be stored: the leader has it, but not all replicas, or nothing is known.
MAY_BE_STORED = (NOT_ANSWERED, int(ErrorCode.REQUEST_TIMED_OUT), int(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND))


@dataclass(frozen=True, slots=True)
class Batch:
    """What identifies a batch, wherever it was stored."""

    client: str  # client id and principal
    key: str | bytes  # the topic's name or id
    partition: int
    count: int
    size: int
    timestamp: int
    crc: int


@dataclass(frozen=True, slots=True)
class Copy:
    """A batch that a broker has acknowledged."""

    client: AuditedClient
    batch: Batch
    event_time: int  # the broker's, where it sets the time
    base_offset: int


# Called with a later copy, and whether the earlier one was acknowledged, too: else it may never have been stored.
Name = Callable[[Copy, bool], None]


class _Attempts:
    """What became of the attempts to send one batch."""

    __slots__ = ("earliest", "is_lost", "is_named", "last", "open")

    def __init__(self) -> None:
        self.open = 0  # without a response so far; their client does not wait for it
        self.is_lost = False  # of one it will never be known
        self.earliest: Copy | None = None
        self.last: Copy | None = None  # the one whose response the client got
        self.is_named = False


class Copies:
    """The batches that clients may send again, and what they have sent again."""

    def __init__(self, name: Name) -> None:
        self._name = name
        self.attempts: dict[Batch, _Attempts] = {}  # a plain one, for compiled readers

    def abandoned(self, client: AuditedClient, sent: Sequence[Sent]) -> None:
        """The client has closed its connection before the response to these."""
        for one in sent:
            if one.crc:
                self._of(_batch(client, one)).open += 1

    def settled(self, client: AuditedClient, sent: Sequence[Sent], was_abandoned: bool) -> None:
        """The response to these has come, or none ever will."""
        for one in sent:
            if not one.crc:
                continue
            batch = _batch(client, one)
            if not one.error:
                time = one.append_time if one.append_time >= 0 else one.timestamp
                self._acknowledged(Copy(client, batch, time, one.base_offset), was_abandoned)
            elif one.error in MAY_BE_STORED:
                self._lost(batch, was_abandoned)
            elif batch in self.attempts:
                self._failed(batch, was_abandoned)

    def _lost(self, batch: Batch, was_abandoned: bool) -> None:
        """There was no response, or one that does not say whether the batch was stored."""
        attempts = self._of(batch)
        attempts.is_lost = True
        attempts.open -= was_abandoned
        self._end(batch, attempts)

    def _acknowledged(self, copy: Copy, was_abandoned: bool) -> None:
        """A broker has stored it."""
        attempts = self.attempts.get(copy.batch)
        if attempts is None:
            return
        earliest = attempts.earliest
        if earliest is None:
            attempts.earliest = copy
        elif earliest.base_offset != copy.base_offset:
            attempts.earliest, later = sorted((earliest, copy), key=lambda one: one.base_offset)
            attempts.is_named = True
            self._name(later, True)
        if was_abandoned:
            attempts.open -= 1
        else:
            attempts.last = copy
        self._end(copy.batch, attempts)

    def _failed(self, batch: Batch, was_abandoned: bool) -> None:
        """It was not stored."""
        attempts = self.attempts[batch]
        attempts.open -= was_abandoned
        self._end(batch, attempts)

    def _of(self, batch: Batch) -> _Attempts:
        attempts = self.attempts.get(batch)
        if attempts is None:
            if len(self.attempts) >= MAX_BATCHES:
                del self.attempts[next(iter(self.attempts))]
            attempts = self.attempts[batch] = _Attempts()
        return attempts

    def _end(self, batch: Batch, attempts: _Attempts) -> None:
        """Forget a batch once nothing more can come of it: the client has its response."""
        if attempts.open > 0:
            return
        if attempts.last is not None:
            if attempts.is_lost and not attempts.is_named:
                self._name(attempts.last, False)
            del self.attempts[batch]
        elif attempts.earliest is None and not attempts.is_lost:
            del self.attempts[batch]


def _batch(client: AuditedClient, one: Sent) -> Batch:
    return Batch(client.key, one.key, one.index, one.count, one.size, one.timestamp, one.crc)
