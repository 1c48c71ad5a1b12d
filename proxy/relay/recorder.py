"""The flight recorder of a connection: the headers of its last requests and responses, never their contents."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from kafka_sidecar.codec.response_status import UNKNOWN, Status, read_status
from kafka_sidecar.proxy.relay.responses import OwnRequests, Waiting
from kafka_sidecar.proxy.relay.routes import ApiVersion

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
