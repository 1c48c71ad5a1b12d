"""Requests that wait for a response of the broker, oldest first, and the responses that are found among them.

The last of them are recorded, by their headers and never their contents: the flight recorder of a connection.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from struct import Struct
from typing import TYPE_CHECKING

from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.response_status import UNKNOWN, Status, read_status
from kafka_sidecar.proxy.relay.exchange import Exchange
from kafka_sidecar.proxy.relay.routes import ApiVersion, Route
from kafka_sidecar.proxy.relay.watch import Watch

if TYPE_CHECKING:
    from kafka_sidecar.proxy.relay.exchange_driver import Driver

# length int32 | correlation id int32 | ...
RESPONSE = Struct(">ii")
MIN_RESPONSE_BYTES = 4


class OwnRequests:
    """What one `Send` has asked, and the responses so far, in order."""

    __slots__ = ("answers", "awaited", "driver", "expected", "take")

    def __init__(self, driver: Driver, expected: int, take: Callable[[bytes], None] | None = None) -> None:
        self.driver = driver
        self.expected = expected
        self.take = take
        self.answers: list[bytes] = []
        self.awaited = 0  # bytes that must come before the next response can be whole

    def add(self, frame: bytes) -> bool:
        """A response has come. Whether the exchange that waits for all of them goes on."""
        if self.take is not None:
            self.take(frame)
            return False
        self.answers.append(frame)
        return self.are_answered

    def may_be_answered(self, size: int) -> bool:
        """Whether the next response may be whole after ``size`` more bytes."""
        self.awaited -= size
        return self.awaited <= 0

    @property
    def are_answered(self) -> bool:
        return len(self.answers) == self.expected


# What waits for a response: its route; its correlation id, or our own response; when it came (seconds); its bytes; and
# who wants the response, if not the client alone; who watches it. A plain tuple: a named one takes three times as long.
Waiting = tuple[Route, int | bytes, float, int, Exchange | OwnRequests | None, Watch | None]


def mismatch(length: int, correlation_id: int, expected: int | bytes | None) -> str:
    """Why a response with this header is not the one that is expected; None: no request waits for one."""
    if length < MIN_RESPONSE_BYTES:
        return f"a response cannot be {length} bytes long"
    if expected is None:
        return f"a response to no request (correlation id {correlation_id})"
    return f"a response to {correlation_id} where {expected!r} was due"


def abandon(waiting: Iterable[Waiting]) -> None:
    """The client has closed: it gets no response to these."""
    for *_, watch in waiting:
        if watch is not None:
            watch.abandoned()


def take_answers(own: OwnRequests, data: bytes, waiting: deque[Waiting]) -> bytes:
    """Take the answers to requests of our own from among the frames of ``data``, and their places in ``waiting``.

    Returns the other bytes, in their order. Raises CodecError.
    """
    at = index = needed = 0
    while not own.are_answered and index < len(waiting):
        _, expected, _, _, owner, _ = waiting[index]
        if isinstance(expected, bytes):  # nothing comes from the broker
            index += 1
            continue
        needed = at + RESPONSE.size
        if len(data) < needed:
            break
        length, correlation_id = RESPONSE.unpack_from(data, at)
        if correlation_id != expected or length < MIN_RESPONSE_BYTES:
            raise CodecError(mismatch(length, correlation_id, expected))
        needed = end = at + 4 + length
        if len(data) < end:
            break
        if owner is own:
            own.answers.append(data[at:end])
            data = data[:at] + data[end:]
            del waiting[index]
        else:
            at, index = end, index + 1
    own.awaited = needed - len(data)
    return data


DEFAULT_RECORDED = 16  # requests of a connection

# The API; correlation id; when the request came (seconds) and its bytes; when its response came (None: there is none)
# and its bytes; and with what the response begins. A plain tuple: the hot path makes one for each request.
Recorded = tuple[ApiVersion, int, float, int, float | None, int, bytes]

NO_RESPONSE = b"no response"  # in place of a response's first bytes: acks=0
OWN_RESPONSE = b"own response"  # the sidecar's


class Recorder:
    """The last requests with their responses, oldest first, then those that wait for a response."""

    __slots__ = ("_last", "_waiting", "add")

    def __init__(self, number: int, waiting: deque[Waiting]) -> None:
        self._last: deque[Recorded] = deque(maxlen=number)
        self._waiting = waiting
        self.add = self._last.append  # (Recorded) -> None

    def __iter__(self) -> Iterator[Recorded]:
        yield from self._last
        for route, correlation_id, since, size, owner, _ in islice(self._waiting, self._last.maxlen):
            if isinstance(correlation_id, int) and not isinstance(owner, OwnRequests):
                yield route.api, correlation_id, since, size, None, 0, b""


@dataclass(frozen=True, slots=True)
class RequestLine:
    """One request and its response, for a person."""

    api: str
    version: int
    correlation_id: int
    ago_s: float  # since the request came
    request_bytes: int
    response: str  # "broker", "sidecar", "none" (acks=0) or "awaited"
    response_after_s: float | None
    response_bytes: int
    status: Status

    def __str__(self) -> str:
        sent = f"{self.api} v{self.version} #{self.correlation_id}, {self.request_bytes} bytes, {self.ago_s:.3f} s ago"
        if self.response_after_s is None:
            return f"{sent}: {'no response expected' if self.response == 'none' else 'no response'}"
        error = f", error {self.status.error_code}" if self.status.error_code else ""
        throttle = f", throttled {self.status.throttle_ms} ms" if self.status.throttle_ms else ""
        by = " by the sidecar" if self.response == "sidecar" else ""
        return f"{sent}: {self.response_bytes} bytes{by} after {self.response_after_s:.3f} s{error}{throttle}"


def request_lines(recorded: Iterable[Recorded], now: float) -> list[RequestLine]:
    """What is recorded, at ``now`` (seconds)."""
    return [_line(one, now) for one in recorded]


def _line(recorded: Recorded, now: float) -> RequestLine:
    api, correlation_id, since, size, responded, response_size, start = recorded
    kinds = {NO_RESPONSE: "none", OWN_RESPONSE: "sidecar"}
    kind = kinds.get(start, "broker" if responded is not None else "awaited")
    status = read_status(api.key, api.version, start) if kind == "broker" else UNKNOWN
    after = max(0.0, responded - since) if responded is not None else None
    ago = max(0.0, now - since)
    return RequestLine(api.name, api.version, correlation_id, ago, size, kind, after, response_size, status)
