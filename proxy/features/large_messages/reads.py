"""Performs what assembling needs as needs of an exchange: reads of the log, threads, turns, memory."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from kafka_sidecar.large_messages.reading import (
    PAUSE,
    Compute,
    Fetched,
    LateError,
    Pause,
    Read,
    Reading,
    ReadObject,
    UnreadableError,
)
from kafka_sidecar.proxy.features.large_messages.object_needs import STORAGE_ERROR, GetObject
from kafka_sidecar.proxy.features.large_messages.read_back import read_request, read_response
from kafka_sidecar.proxy.features.large_messages.reads_ahead import Reader, ReadsAhead
from kafka_sidecar.proxy.relay.exchange import TURN, Client, Send, Steps, TimeLimit, Work

T = TypeVar("T")
COPIES = 2  # of a value, while a response is made of it: as it is assembled, and in the frame


class Reads:
    """The reads of one exchange."""

    __slots__ = ("_ahead", "_client", "_late_at", "_limit", "_reserved", "_stopwatch", "_version")

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
        self._late_at = late_at
        self._reserved = 0

    def perform(self, reading: Reading[T], key: str | bytes, partition: int) -> Steps[T]:
        """The result of a reading of one partition. ``key`` is what frames have: the topic's name, or its id."""
        if self._late_at is None:
            self._late_at = self._stopwatch() + self._limit.work_s
        result: Any = None
        errors: list[Exception] = []  # no variable may hold one: with its traceback it would hold what is read
        while True:
            try:
                need = reading.throw(errors.pop()) if errors else reading.send(result)
            except StopIteration as done:
                value: T = done.value
                return value
            result = None
            if need is PAUSE:
                yield TURN
                continue
            try:
                result = yield from self._meet(need, key, partition)
            except (LateError, UnreadableError) as failure:
                errors.append(failure)

    def _meet(self, need: Read | ReadObject | Compute | Pause, key: str | bytes, partition: int) -> Steps[Any]:
        if isinstance(need, Compute):
            try:
                return (yield Work(need.run, limit=self._limit))
            except TimeoutError as error:
                raise LateError from error
        if isinstance(need, Read) and self._ahead is not None:
            reader = self._reader(key, partition, need.committed_only)
            if (found := self._ahead.take(reader, need.offset)) is not None:
                return found
        if isinstance(need, Read):
            return (yield from self._read(need, key, partition))
        self._check_time()
        assert isinstance(need, ReadObject)
        try:
            return (yield GetObject(need.key, need.max_size))
        except OSError as error:
            raise UnreadableError(STORAGE_ERROR) from error

    def _read(self, need: Read, key: str | bytes, partition: int) -> Steps[Fetched]:
        """What the broker has; where it throttles this client, once its quota allows it."""
        frame = read_request(need, self._version, key, partition, self._client.client_id)
        while True:
            self._check_time()
            (response,) = yield Send((frame,))
            if (fetched := read_response(response, self._version)) is not None:
                return fetched

    def _check_time(self) -> None:
        if self._late_at is not None and self._stopwatch() >= self._late_at:
            raise LateError

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
