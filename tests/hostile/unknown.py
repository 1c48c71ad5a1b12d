"""Attacks of clients that nobody knows yet: names of topics, connections to the admin port, logins."""

from __future__ import annotations

from hostile.attacks import MB, Attack, Place, reconnect
from hostile.wire import compact, frame, hold, uvarint


def invalid_name(_: int) -> bytes:
    """A Produce of 20 MB, nearly all of it the name of a topic."""
    partition = b"\0" * 4 + compact(b"") + b"\0"
    topic = compact(b"n" * (20 * MB)) + uvarint(2) + partition + b"\0"
    return frame(0, 9, b"\0" + b"\xff\xff" + (10_000).to_bytes(4, "big") + uvarint(2) + topic + b"\0", flexible=True)


def idle_admin(place: Place) -> None:
    """Connections to the admin port: half of them silent, half with requests whose answers they do not read."""
    question = b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 50
    hold(place.admin, [question if number % 2 else b"" for number in range(500)], place.limit_s)


UNKNOWN = (Attack("66: a topic name of 20 MB, 24 times", lambda: reconnect(24, invalid_name)),)
