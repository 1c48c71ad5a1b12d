"""Shared by the taps of all APIs: a process has one auditor, and knows topics and groups once for all connections."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from kafka_sidecar.audit.contract import (
    SEVERAL_GROUPS,
    AuditedClient,
    BatchAuditor,
    LargeMessages,
    Result,
    TopicName,
)
from kafka_sidecar.audit.counters import BatchCount
from kafka_sidecar.codec.apis import ErrorCode
from kafka_sidecar.codec.produce_counts import NOT_ANSWERED, Sent
from kafka_sidecar.codec.topic_names import is_topic_name
from kafka_sidecar.codec.wire import NO_ID
from kafka_sidecar.plugins.bounded import Bounded

log = logging.getLogger(__name__)

LATER = "(counted later)"  # in place of an API
MAX_DELAY_S = 0.1  # what a connection has to count waits no longer
MAX_FRAME_BYTES = 4 << 20  # a longer one is not counted
MAX_CLIENTS = 10_000
MAX_NAME_BYTES = 8 << 20  # of their names and those of their groups
NAME_OVERHEAD_BYTES = 100
MAX_GROUPS = 16  # of one client id and address
KEPT_S = 60.0  # since a request named the group; members send heartbeats every few seconds
MAX_KNOWN = 100_000
MAX_HELD = 10_000  # batches of topics whose names are being requested

Origin = tuple[str | None, str | None]  # client id, address
Count = Callable[[str], None]  # calls the auditor with the topic's name
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


@dataclass(slots=True)
class AuditingStats:
    """What one process could not count."""

    uncounted: Counter[tuple[str, str]] = field(default_factory=Counter)  # frames, by API and reason
    unnamed: int = 0  # batches of topics whose name is not known

    def unreadable(self, api: str) -> None:
        """A frame is not what its header says. It is relayed: the broker or the client rejects it."""
        self.uncounted[api, "unreadable"] += 1

    def failed(self, api: str, error: Exception) -> None:
        """The auditor has raised an exception; the first one is logged."""
        if not self.uncounted[api, "auditor_failed"]:
            log.error("auditor failed", exc_info=error)
        self.uncounted[api, "auditor_failed"] += 1


class Groups:
    """The consumer group of each client: a Fetch does not name it, other requests of the same client id and address do.

    Where one client id and address belong to several groups at a time, it is not known in which of them they read.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock  # seconds
        self._seen: dict[Origin, dict[str, float]] = {}  # when requests have named each group last; the latest is last
        self._bytes = 0  # of these names, which clients choose
        self._groups: dict[Origin, str] = {}
        self.find = self._groups.get

    def learn(self, client: Origin, group: str) -> None:
        """A request of this client has named a group."""
        if not group:
            return
        now = self._clock()
        seen = self._seen.pop(client, None)
        if seen is None:
            seen = {}
            self._bytes += _size(*client)
        self._seen[client] = seen
        if group not in seen:
            self._bytes += _size(group)
        seen[group] = now
        for other in [one for one, at in seen.items() if now - at > KEPT_S]:
            self._forget_group(seen, other)
        if len(seen) > MAX_GROUPS:
            self._forget_group(seen, next(iter(seen)))
        self._groups[client] = group if len(seen) == 1 else SEVERAL_GROUPS
        self._forget_clients(now)

    def _forget_group(self, seen: dict[str, float], group: str) -> None:
        del seen[group]
        self._bytes -= _size(group)

    def _forget_clients(self, now: float) -> None:
        """Those that have named no group for long, and while there are too many those for longest."""
        while len(self._seen) > 1:
            oldest, groups = next(iter(self._seen.items()))
            is_old = now - max(groups.values()) > KEPT_S
            if not (is_old or len(self._seen) > MAX_CLIENTS or self._bytes > MAX_NAME_BYTES):
                return
            del self._seen[oldest], self._groups[oldest]
            self._bytes -= _size(*oldest, *groups)


def _size(*names: str | None) -> int:
    return sum(NAME_OVERHEAD_BYTES + len(name or "") for name in names)


class AuditedTopics:
    """The topics that are audited, by name or id, and what is counted under an id before its name is known."""

    def __init__(
        self,
        name_of: Callable[[bytes], str | None],
        is_audited: Callable[[str], bool],
        request_name: Callable[[bytes, Callable[[], None]], None],
        stats: AuditingStats,
        id_of: Callable[[str], bytes] = lambda name: NO_ID,
    ) -> None:
        """
        Args:
            name_of: the name of a topic id, if it is known.
            is_audited: whether a topic is not excluded.
            request_name: begins to request the name of an id, and calls back when that has ended, in any way.
            id_of: the id that a name had last; zeros if none is known.
        """
        self._name_of = name_of
        self._is_audited = is_audited
        self._request_name = request_name
        self._stats = stats
        self._id_of = id_of
        self.generation = 0  # another one as soon as a name has another id: then `get` must be asked again
        self._known = Bounded[str | bytes, str | None](MAX_KNOWN)
        self.get = self._known.get  # the name of an audited topic; None: excluded, or not looked up yet
        self._held: dict[bytes, list[Count]] = {}
        self._held_count = 0

    def find(self, key: str | bytes, count: Count) -> str | None:
        """The name of a topic; None: nothing is to be counted now. ``count`` is called later if the name comes late."""
        if key in self._known:
            return self._known[key]
        name = self._name_of(key) if isinstance(key, bytes) else key
        if name is None:
            assert isinstance(key, bytes)
            self._hold(key, count)
            return None
        audited = self._identified(name, key) if self._is_audited(name) else None
        if isinstance(key, str) and not is_topic_name(key):
            return audited  # brokers reject it
        self._known[key] = audited
        return audited

    def learn(self, topic_id: bytes, name: str) -> None:
        """The topic of this name has this id now. What clients do by name is counted under it from now on."""
        known = self._known.get(name)
        if known is not None and not (isinstance(known, TopicName) and known.topic_id == topic_id):
            self._known[name] = TopicName(name, topic_id)
            self.generation += 1

    def _identified(self, name: str, key: str | bytes) -> str:
        topic_id = key if isinstance(key, bytes) else self._id_of(name)
        return name if topic_id == NO_ID else TopicName(name, topic_id)

    def _hold(self, topic_id: bytes, count: Count) -> None:
        if self._held_count >= MAX_HELD:
            self._stats.unnamed += 1
            return
        self._held_count += 1
        if topic_id in self._held:
            self._held[topic_id].append(count)
            return
        self._held[topic_id] = [count]
        self._request_name(topic_id, lambda: self._release(topic_id))

    def _release(self, topic_id: bytes) -> None:
        counts = self._held.pop(topic_id, [])
        self._held_count -= len(counts)
        name = self._name_of(topic_id)
        if name is None:
            self._stats.unnamed += len(counts)
            return
        for count in counts if self._is_audited(name) else ():
            try:
                count(self._identified(name, topic_id))
            except Exception as error:  # noqa: BLE001 - an auditor must not break what has requested the name
                self._stats.failed("Metadata", error)


class Counting:
    """How taps call the auditor."""

    def __init__(
        self,
        auditor: BatchAuditor,
        name_of: Callable[[bytes], str | None],
        is_audited: Callable[[str], bool],
        request_name: Callable[[bytes, Callable[[], None]], None],
        *,
        id_of: Callable[[str], bytes] = lambda name: NO_ID,
        bucket_ms: int = 0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """
        Args:
            auditor: is called for each batch.
            name_of: the name of a topic id, if it is known.
            is_audited: whether a topic is not excluded. The audit topic must be.
            request_name: begins to request the name of an id, and calls back when that has ended, in any way.
            id_of: the id that a name had last; zeros if none is known.
            bucket_ms: the auditor's buckets of event time: fetched batches that follow each other in one bucket, with
                the same latency within 2 %, are one call. 0: one call for each.
            clock: seconds since 1970.
        """
        self.stats = AuditingStats()
        self.topics = AuditedTopics(name_of, is_audited, request_name, self.stats, id_of)
        self.groups = Groups(clock)
        self.bucket_ms = bucket_ms
        self.clock = clock
        self.auditor = auditor
        self.call_later: Callable[[float, Callable[[], None]], object] | None = None  # seconds; None: count at once
        self._pending: list[Callable[[], None]] = []
        self.copies = Copies(self._name_copy)

    def _name_copy(self, copy: Copy, is_certain: bool) -> None:
        of = copy.batch
        batch = BatchCount(copy.event_time, of.count, of.size, result=Result.ACKED, first_offset=copy.base_offset)
        rest = of.partition, batch, is_certain
        self.call("Produce", of.key, named(self.auditor.duplicated, (copy.client,), rest))

    def count_later(self, count: Callable[[], None]) -> bool:
        """Have ``count`` called once, soon; False: it must be called now."""
        if self.call_later is None:
            return False
        if not self._pending:
            self.call_later(MAX_DELAY_S, self.flush_pending)
        self._pending.append(count)
        return True

    def flush_pending(self) -> None:
        """Count what was to be counted later."""
        pending, self._pending = self._pending, []
        for count in pending:
            try:
                count()
            except Exception as error:  # noqa: BLE001 - it must not keep the others from being counted
                self.stats.failed(LATER, error)

    def call(self, api: str, key: str | bytes, count: Callable[[str], None]) -> None:
        """Call the auditor with the name of an audited topic: now, or once the name of this id is known."""
        topic = self.topics.get(key)
        if topic is None:
            topic = self.topics.find(key, count)
        if topic is not None:
            try:
                count(topic)
            except Exception as error:  # noqa: BLE001 - an auditor must not cost a connection
                self.stats.failed(api, error)


def large_messages(
    client: AuditedClient,
    group: str | None,
    batch: tuple[int, int, int, int],
    messages: tuple[tuple[int, int], ...],
    call: Callable[..., None],
    *rest: object,
) -> Callable[[str], None]:
    """For `Counting.call`: a call with the large messages of a batch (partition, timestamp, first and last offset)."""
    return lambda topic: call(LargeMessages(client, group, topic, *batch, messages), *rest)


def named(call: Callable[..., None], whose: tuple[Any, ...], rest: tuple[Any, ...]) -> Callable[[str], None]:
    """For `Counting.call`: a call with the topic's name between these arguments."""
    return lambda topic: call(*whose, topic, *rest)


class FrameParts:
    """The pieces of one small frame, put together."""

    __slots__ = ("_parts", "_size")

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def add(self, data: bytes, start: int, end: int, last: bool) -> tuple[bytes, int, int] | None:
        """Where the frame is once it is whole: bytes, start, end. A frame that is too long is empty then."""
        if last and not self._parts:
            return data, start, end
        self._size += end - start
        if self._size > MAX_FRAME_BYTES:
            self._parts = [b""]
        else:
            self._parts.append(data[start:end])
        if not last:
            return None
        frame = b"".join(self._parts)
        return frame, 0, len(frame)
