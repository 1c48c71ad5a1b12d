"""Rejections, denials and connections for an open tap: rows that the admin port has, as they come."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kafka_sidecar.proxy.relay.exchange import Closing
from kafka_sidecar.proxy.runtime.connection import Connection
from kafka_sidecar.proxy.runtime.connection_state import closed_keys, connection_keys
from kafka_sidecar.proxy.server.admin.tap.open_tap import CallLater, OpenTap, Timer, cut

POLL_S = 0.25
BY_OTHERS = ("denial", "producer")  # rows of what is stored once for each kind, and says how often
NAMES = ("client_id", "client_software", "principal")  # that clients choose

Row = Mapping[str, Any]


class RejectionEvents:
    """Looks for new rejections as long as it is open."""

    def __init__(self, open_tap: OpenTap, latest: Callable[[], Iterable[Row]], call_later: CallLater) -> None:
        """``latest``: the last rows."""
        self._open = open_tap
        self._latest = latest
        self._call_later = call_later
        rows = list(latest())
        self._seen = set(map(_identity, rows))
        self._last = max(map(_number, rows), default=0)  # of the batches, which have numbers
        self._timer: Timer = call_later(POLL_S, self._look)

    def _look(self) -> None:
        rows = list(self._latest())
        new = sorted((row for row in rows if _identity(row) not in self._seen), key=_when)
        self._seen = set(map(_identity, rows))
        if numbers := [number for row in new if (number := _number(row))]:
            if (missed := min(numbers) - self._last - 1) > 0 and self._last:
                self._open.skip(missed)
            self._last = max(numbers)
        for row in new:
            shown = _row(row)
            if self._open.filter.allows_row(shown) and self._open.grant(1):
                self._open.add(shown)
        self._timer = self._call_later(POLL_S, self._look)

    def close(self) -> None:
        self._timer.cancel()


def _times(row: Row) -> int:
    return sum(row[name]["times"] for name in BY_OTHERS if name in row)


def _identity(row: Row) -> tuple[str, str, int]:
    return row["id"], row["timestamp"], _times(row)


def _when(row: Row) -> str:
    return str(row["timestamp"])


def _number(row: Row) -> int:
    """Of a rejected batch; 0: it is none."""
    return 0 if any(name in row for name in BY_OTHERS) else int(row["id"].rpartition("-")[2], 16)


def _row(row: Row) -> dict[str, Any]:
    """One line; all rows have the same names, whoever has rejected."""
    of_kind: Row = next((row[name] for name in BY_OTHERS if name in row), {})
    return {
        "kind": "rejection",
        "at_ms": int(time.time() * 1000),
        "times": _times(row) or 1,
        "outcome": "rejected" if row["mode"] == "enforce" else "allowed",
        "principal": of_kind.get("principal"),
        **row,
    }


class ConnectionEvents:
    """Shows connections that open and close."""

    def __init__(self, open_tap: OpenTap) -> None:
        self._open = open_tap

    def __call__(self, connection: Connection, closing: Closing | None) -> None:
        """``closing``: why it has ended; None: it has begun."""
        session, one = connection.session, self._open
        # Nothing is known of a client that has only connected.
        if not one.filter.allows_client(session.client_id, session.principal) or not one.grant(1):
            return
        keys = connection_keys(connection) if closing is None else closed_keys(connection, closing)
        names = {name: cut(keys[name]) for name in NAMES}
        event = "opened" if closing is None else "closed"
        one.add({"kind": "connection", "event": event, "at_ms": int(time.time() * 1000), **keys, **names})
