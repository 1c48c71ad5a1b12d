"""What is known of a connection, for log lines and the admin port. Never a payload."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterable, Iterator
from heapq import nlargest
from itertools import chain, islice
from typing import Any

from kafka_sidecar.codec.apis import is_removed
from kafka_sidecar.proxy.relay.exchange import Closing
from kafka_sidecar.proxy.relay.responses import RequestLine, request_lines
from kafka_sidecar.proxy.relay.routes import ApiVersion
from kafka_sidecar.proxy.runtime.connection import Connection
from kafka_sidecar.proxy.telemetry.logs import timestamp

MAX_LOGGED_REQUESTS = 8
LONG_S = 1.0  # a request without a response for so long comes before others; consumers wait half a second for data
MAX_LOOKED_AT, LOOKED_AT_PER_TURN = 20_000, 1000  # connections; each takes a microsecond or two
MAX_REASON_CHARS = 40  # what is different in two details of one cause comes first
_NUMBER = re.compile(r"[0-9a-f.:]*[0-9][0-9a-f.:]*")  # addresses among them


def connection_keys(connection: Connection) -> dict[str, Any]:
    """Who it is, and what has passed."""
    session = connection.session
    return {
        "session": connection.number,
        "listener": connection.listener,
        "client": connection.peer,
        "client_id": session.client_id,
        "client_software": session.client_software,
        "principal": session.principal,
        "duration_s": round(time.monotonic() - connection.began, 3),
        "requests": session.requests,
        "responses": session.responses,
        "in_flight": connection.in_flight,
        "bytes_from_client": connection.bytes_from_client,
        "bytes_from_broker": connection.bytes_from_broker,
    }


def closed_keys(connection: Connection, closing: Closing) -> dict[str, Any]:
    """A connection that has ended, and why."""
    return {
        **connection_keys(connection),
        "cause": closing.cause,
        "reason": closing.reason or None,
        "detail": closing.detail,
    }


def end_keys(connection: Connection, closed: dict[str, Any], suppressed: int | None = None) -> dict[str, Any]:
    """One log line, from `closed_keys`. ``suppressed``: how many such lines were, since the last one; None: the end is
    a normal one."""
    last = recorded(connection)[-MAX_LOGGED_REQUESTS:] if suppressed is not None else []
    return {
        **closed,
        "suppressed": suppressed,
        "last_requests": list(map(str, last)) or None,
    }


def end_kind(connection: Connection, closing: Closing) -> tuple[str, ...]:
    """The kind of that line, for a limit: where the cause has no reason, what its detail says but for numbers."""
    reason = closing.reason or _NUMBER.sub("", closing.detail)[:MAX_REASON_CHARS].strip()
    return ("connection ended", closing.cause, reason, connection.listener)


def describe_open(connection: Connection) -> dict[str, Any]:
    """An open connection, as it is now."""
    broker = connection.broker
    return {
        **connection_keys(connection),
        "broker": _broker_address(connection),
        "client_paused": sorted(connection.client.reasons),
        "broker_paused": sorted(broker.reasons) if broker is not None else [],
    }


def describe_waiting(connection: Connection) -> dict[str, Any]:
    """The same, with what its requests are, what they wait for, and how long."""
    now, oldest, broker = time.monotonic(), connection.session.oldest_since, connection.broker
    sides = [("client", connection.client), *([("broker", broker)] if broker is not None else [])]
    apis = sorted({one[0] for one in connection.session.recorder})
    return {
        **describe_open(connection),
        "oldest_s": round(max(0.0, time.perf_counter() - oldest), 3) if oldest is not None else None,
        "pauses": [
            {"side": name, "reason": reason, "for_s": round(now - since, 3)}
            for name, side in sides
            for reason, since in side.paused_since.items()
        ],
        "apis": [f"{api.name} v{api.version}" for api in apis],
        "removed_apis": [f"{api.name} v{api.version}" for api in apis if is_removed(api.key, api.version)],
    }


def with_removed(connections: Iterable[Connection]) -> Iterator[Connection]:
    """Those that have sent versions of requests, of those that are recorded, that Kafka 4 has removed (KIP-896)."""
    known: dict[ApiVersion, bool] = {}  # all connections have the same few
    for connection in connections:
        for one in connection.session.recorder:
            api = one[0]
            if (is_old := known.get(api)) is None:
                is_old = known[api] = is_removed(api.key, api.version)
            if is_old:
                yield connection
                break


async def first_to_show(connections: dict[Connection, None], number: int) -> list[Connection]:
    """Of very many, in the order in which they came: those that wait, the longest first, then the newest.

    A turn of the event loop is for some of them. Of more than `MAX_LOOKED_AT` the oldest are not looked at.
    """
    newest = list(islice(reversed(connections), MAX_LOOKED_AT))
    long_ago, waiting = time.perf_counter() - LONG_S, list[Connection]()
    for at in range(0, len(newest), LOOKED_AT_PER_TURN):
        some = newest[at : at + LOOKED_AT_PER_TURN]
        waiting += [one for one in some if one.is_paused or (one.session.oldest_since or long_ago) < long_ago]
        await asyncio.sleep(0)
    first = nlargest(number, waiting, key=_trouble_of)
    return list(islice((one for one in dict.fromkeys(chain(first, newest)) if one in connections), number))


def _trouble_of(connection: Connection) -> tuple[bool, float, int]:
    return connection.is_paused, -(connection.session.oldest_since or float("inf")), connection.number


def _broker_address(connection: Connection) -> str | None:
    """Address and port of the broker, while it is connected."""
    transport = connection.broker.transport if connection.broker is not None else None
    name = transport.get_extra_info("peername") if transport is not None else None
    return f"{name[0]}:{name[1]}" if name else None


def recorded(connection: Connection) -> list[RequestLine]:
    """The last requests of a connection, oldest first."""
    return request_lines(connection.session.recorder, time.perf_counter())


def describe_request(line: RequestLine) -> dict[str, Any]:
    """One of them."""
    return {
        "timestamp": timestamp(time.time() - line.ago_s),
        "api": line.api,
        "version": line.version,
        "correlation_id": line.correlation_id,
        "request_bytes": line.request_bytes,
        "response": line.response,
        "response_bytes": line.response_bytes if line.response_after_s is not None else None,
        "response_after_s": round(line.response_after_s, 6) if line.response_after_s is not None else None,
        "error_code": line.status.error_code,
        "throttle_ms": line.status.throttle_ms,
    }
