"""Reads of partitions' logs for assembly, as needs of an exchange: requests of our own, threads, turns, memory.

Requests are sent on the client's connection to the broker. Each is a Fetch without a session (id 0, epoch -1), so that
the client's fetch session stays as the client knows it (KIP-227), and in the version of the client's own requests,
which the broker is known to take. A request that continues a session names the partitions alone of which something has
changed, so the offsets and limits of the client's own requests are kept.

While a client receives a large message, the beginning of what its next Fetch will ask for is read ahead: only for one
that has got one large message after the other and nothing else. Where there are small ones between them, the broker's
next response has most of what comes. A process keeps a limited number of bytes, for a few seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

from kafka_sidecar.codec.apis import ErrorCode
from kafka_sidecar.codec.envelope import decode_request, decode_response, encode_request
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kafka_sidecar.codec.records import batches
from kafka_sidecar.codec.visibility import offsets_of
from kafka_sidecar.large_messages.reading import Fetched, Read, ReadObject, UnreadableError
from kafka_sidecar.plugins.bounded import Bounded
from kafka_sidecar.plugins.effects import Need, Steps, TimeLimit, Work
from kafka_sidecar.proxy.exchanges.fetch import FIRST_WITH_IDS
from kafka_sidecar.proxy.features.large_messages.object_needs import STORAGE_ERROR, GetObject
from kafka_sidecar.proxy.relay.exchange import Client, Send

UNKNOWN = 2**31 - 1


class FetchPosition(NamedTuple):
    """What a client asks for of one partition."""

    offset: int = 0
    max_bytes: int = UNKNOWN


NOWHERE = FetchPosition()


class FetchPositions:
    """The positions of one client, as far as this connection has seen its requests."""

    __slots__ = ("_positions", "is_committed_only", "max_bytes", "max_wait_ms")

    def __init__(self, frame: bytes, version: int, before: object | None) -> None:
        """
        Args:
            frame: of the request.
            version: of the request.
            before: the positions of the request before this one on the same connection.

        Raises:
            CodecError: the frame cannot be read.
        """
        request = decode_request(FetchRequest, frame)[1].message
        self.is_committed_only = request.isolation_level == 1
        self.max_wait_ms = request.max_wait_ms
        self.max_bytes = request.max_bytes
        known = before._positions if isinstance(before, FetchPositions) and request.session_epoch > 0 else {}
        self._positions: dict[tuple[str | bytes, int], FetchPosition] = dict(known)
        by_id = version >= FIRST_WITH_IDS
        for topic in request.forgotten_topics_data:
            for index in topic.partitions:
                self._positions.pop((topic.topic_id if by_id else topic.topic, index), None)
        for named in request.topics:
            key = named.topic_id if by_id else named.topic
            for one in named.partitions:
                self._positions[key, one.partition] = FetchPosition(one.fetch_offset, one.partition_max_bytes)

    def of(self, key: str | bytes, index: int) -> FetchPosition:
        """The position in a partition. ``key`` is the topic's name, or since v13 its id."""
        return self._positions.get((key, index), NOWHERE)


MAX_AGE_S = 5.0  # a client that goes on does so at once
MAX_READERS = 10_000  # of which it is remembered where they go on


class Reader(NamedTuple):
    """Who reads what. No other client gets it, because brokers may allow this one alone to read the topic."""

    connection: int
    topic: bytes | str  # as in the frames: its name, or since v13 its id
    partition: int
    is_committed_only: bool


@dataclass(slots=True)
class _Ahead:
    offset: int
    size: int  # bytes
    began: float  # seconds
    fetched: Fetched | None = None  # None: has not come yet


class ReadsAhead:
    """One read for each reader; it is taken once."""

    def __init__(self, limit: int, stopwatch: Callable[[], float]) -> None:
        """``limit``: bytes of all readers together."""
        self.limit = limit
        self._stopwatch = stopwatch
        self._ahead: dict[Reader, _Ahead] = {}  # the oldest is the first
        self._next = Bounded[Reader, int](MAX_READERS)  # the offset after a response with large messages alone
        self.bytes = 0

    def begin(self, reader: Reader, since: int, until: int, need: Read) -> bool:
        """Whether what comes next may be read now, and is not being read already.

        The reader gets a response with large messages alone, which begins at ``since`` and ends before ``until``.
        """
        if (ahead := self._ahead.get(reader)) is not None and ahead.offset == need.offset:
            return False
        self.forget(reader)
        before = self._next.pop(reader)
        self._next[reader] = until
        if before != since:
            return False
        self.forget_old()
        if self.bytes + need.max_bytes > self.limit:
            return False
        self._ahead[reader] = _Ahead(need.offset, need.max_bytes, self._stopwatch())
        self.bytes += need.max_bytes
        return True

    def came(self, reader: Reader, fetched: Fetched) -> None:
        """The broker has responded."""
        ahead = self._ahead.get(reader)
        if ahead is not None and ahead.fetched is None:
            self.bytes += len(fetched.records) - ahead.size
            ahead.fetched, ahead.size = fetched, len(fetched.records)

    def take(self, reader: Reader, offset: int) -> Fetched | None:
        """What was read from this offset on; None: nothing. Other offsets are forgotten: the client reads elsewhere."""
        self.forget_old()
        ahead = self._ahead.get(reader)
        self.forget(reader)
        if ahead is None or ahead.fetched is None or not ahead.offset <= offset:
            return None
        return _since(ahead.fetched, offset)

    def forget(self, reader: Reader) -> None:
        """The reader does not need it."""
        if (ahead := self._ahead.pop(reader, None)) is not None:
            self.bytes -= ahead.size

    def forget_old(self) -> None:
        """Forget what no client has asked for in time."""
        since = self._stopwatch() - MAX_AGE_S
        while self._ahead and (oldest := next(iter(self._ahead.items())))[1].began < since:
            self.forget(oldest[0])


def _since(fetched: Fetched, offset: int) -> Fetched | None:
    """The batches that end at the offset or after it; None: there are none."""
    try:
        found = batches(fetched.records, may_end_early=True)
    except CodecError:
        return None
    at = 0
    for batch in found:
        if offsets_of(batch)[1] >= offset:
            return replace(fetched, records=memoryview(fetched.records)[at:])
        at += len(batch.data)
    return None


OURS = 0x5EAD  # the correlation id, which is not compared with those of the client
READ_UNCOMMITTED, READ_COMMITTED = 0, 1


def read_request(read: Read, version: int, topic: str | bytes, partition: int, client_id: str | None) -> bytes:
    """The frame of a read. ``topic`` is its name, or from v13 on its id."""
    one = FetchPartition(partition=partition, fetch_offset=read.offset, partition_max_bytes=read.max_bytes)
    named = FetchTopic(topic_id=topic, partitions=(one,)) if isinstance(topic, bytes) else FetchTopic(
        topic=topic, partitions=(one,)
    )  # fmt: skip
    message = FetchRequest(
        max_wait_ms=0, min_bytes=0, max_bytes=read.max_bytes, session_id=0, session_epoch=-1, topics=(named,),
        isolation_level=READ_COMMITTED if read.committed_only else READ_UNCOMMITTED,
    )  # fmt: skip
    return encode_request(message, version, OURS, client_id)


def read_response(frame: bytes, version: int) -> Fetched | None:
    """What the broker has responded; None: nothing, because of a quota.

    A broker that throttles responds to a Fetch at once and without partitions, and reads the connection's next request
    when the throttle time is over (KIP-219).

    Raises:
        UnreadableError: it is no response to a read.
    """
    try:
        message = decode_response(FetchResponse, frame, version).message
    except CodecError as error:
        raise UnreadableError(ErrorCode.UNKNOWN_SERVER_ERROR) from error
    if message.error_code:
        return Fetched(message.error_code)
    if not message.responses and message.throttle_time_ms > 0:
        return None
    if len(message.responses) != 1 or len(message.responses[0].partitions) != 1:
        raise UnreadableError(ErrorCode.UNKNOWN_SERVER_ERROR)
    one = message.responses[0].partitions[0]
    return Fetched(
        one.error_code,
        one.records if one.records is not None else b"",
        one.high_watermark,
        one.last_stable_offset,
        one.log_start_offset,
        one.aborted_transactions or (),
    )


T = TypeVar("T")
COPIES = 2  # of a value, while a response is made of it: as it is assembled, and in the frame


class Reads:
    """The reads of one exchange."""

    __slots__ = ("_ahead", "_client", "_limit", "_reserved", "_stopwatch", "_version", "late_at")

    def __init__(
        self, client: Client, version: int, limit: TimeLimit, stopwatch: Callable[[], float], late_at: float | None,
        ahead: ReadsAhead | None = None,
    ) -> None:  # fmt: skip
        """
        Args:
            client: whose connection is used.
            version: of Fetch.
            limit: for threads, of one exchange.
            stopwatch: seconds.
            late_at: when the client must get its response; nothing is read then. None: once the limit is over, from
                the first reading on, because the broker may have waited for records before.
            ahead: what was read before it was asked for. None: nothing ever is.
        """
        self._ahead = ahead
        self._client = client
        self._version = version
        self._limit = limit.start()
        self._stopwatch = stopwatch
        self.late_at = late_at
        self._reserved = 0

    def perform(self, reading: Steps[T], key: str | bytes, partition: int) -> Steps[T]:
        """The result of a reading of one partition. ``key`` is what frames have: the topic's name, or its id."""
        if self.late_at is None:
            self.late_at = self._stopwatch() + self._limit.work_s
        result: Any = None
        errors: list[Exception] = []  # no variable may hold one: with its traceback it would hold what is read
        while True:
            try:
                need = reading.throw(errors.pop()) if errors else reading.send(result)
            except StopIteration as done:
                value: T = done.value
                return value
            result = None
            try:
                result = yield from self._meet(need, key, partition)
            except Exception as failure:  # noqa: BLE001 - the reading knows which it expects
                errors.append(failure)

    def _meet(self, need: Need, key: str | bytes, partition: int) -> Steps[Any]:
        """Meet reads by requests of our own; all else as it is, within the limit."""
        if isinstance(need, Read):
            return (yield from self._read(need, key, partition))
        if isinstance(need, ReadObject):
            self._check_time()
            try:
                return (yield GetObject(need.key, need.max_size))
            except OSError as error:
                raise UnreadableError(STORAGE_ERROR) from error
        return (yield replace(need, limit=self._limit) if isinstance(need, Work) else need)

    def _read(self, need: Read, key: str | bytes, partition: int) -> Steps[Fetched]:
        """What was read ahead, or what the broker has; where it throttles this client, once its quota allows it."""
        if self._ahead is not None:
            reader = self._reader(key, partition, need.committed_only)
            if (found := self._ahead.take(reader, need.offset)) is not None:
                return found
        frame = read_request(need, self._version, key, partition, self._client.client_id)
        while True:
            self._check_time()
            (response,) = yield Send((frame,))
            if (fetched := read_response(response, self._version)) is not None:
                return fetched

    def _check_time(self) -> None:
        if self.late_at is not None and self._stopwatch() >= self.late_at:
            raise TimeoutError

    def read_ahead(self, since: int, until: int, need: Read, key: str | bytes, partition: int) -> Steps[None]:
        """Begin to read what comes after a response from ``since`` up to ``until`` that has large messages alone."""
        reader = self._reader(key, partition, need.committed_only)
        if self._ahead is not None and self._ahead.begin(reader, since, until, need):
            frame = read_request(need, self._version, key, partition, self._client.client_id)
            yield Send((frame,), partial(_take, self._ahead, reader, self._version))

    def _reader(self, key: str | bytes, partition: int, is_committed_only: bool) -> Reader:
        return Reader(self._client.number, key, partition, is_committed_only)

    def reserve(self, size: int) -> None:
        """The exchange needs memory for a message of ``size`` bytes. Connections that began later wait for theirs."""
        self._reserved += COPIES * size
        self._client.account.add(COPIES * size)

    def close(self) -> None:
        """The memory is no longer needed."""
        if self._reserved:
            self._client.account.release(self._reserved)
            self._reserved = 0


def _take(ahead: ReadsAhead, reader: Reader, version: int, frame: bytes) -> None:
    try:
        fetched = read_response(frame, version)
    except UnreadableError:
        fetched = None
    if fetched is None or fetched.error_code:
        ahead.forget(reader)
    else:
        ahead.came(reader, fetched)
