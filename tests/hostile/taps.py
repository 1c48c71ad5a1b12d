"""Taps that nothing reads, and what clients send to them: the names and batches that are hardest to show."""

from __future__ import annotations

import gzip
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

from integration.validation.batches import batch, record

from hostile.attacks import GZIP, MB, Attack, Place, Run, flood
from hostile.wire import produce

TAPPED = "tap: {allow_keys: true, allow_values: true, max_rate: 10000}\n"
QUERIES = ("kind=records&show=keys,values", "kind=requests", "kind=records&topic=orders", "kind=connections")
NAME = b"\x1b]0;title\x07\xff\xe2\x80\xae" * 20


def while_tapped(make: Callable[[], bytes], connections: int, times: int) -> Callable[[], Run]:
    """The same bytes on some connections at once, so often, with four taps open of which nothing is read."""

    def prepare() -> Run:
        return partial(_flood_taps, make(), connections, times)

    return prepare


def _flood_taps(data: bytes, connections: int, times: int, place: Place) -> str:
    began = time.monotonic()
    with ExitStack() as stack:
        for query in QUERIES:
            tap = stack.enter_context(socket.create_connection(place.admin))
            tap.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            tap.sendall(f"GET /tap?{query} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        flood(data, connections, times, place)
        time.sleep(max(0.0, began + place.limit_s - time.monotonic()))
    return f"{len(QUERIES)} taps were open, and nothing of them was read"


def small() -> bytes:
    """Requests of one record, whose client and headers have hostile names."""
    one = batch(record(0, b"{}", [("h\x1b[2J" * 20, b"x")], key=NAME), 1)
    return produce([(b"orders", [(0, one)])], client=NAME[:249]) * 2000


def bombs(topic: bytes = b"orders", end: bytes = b'"') -> bytes:
    """Batches that inflate to 64 MB each, beside what honest clients read. Without their end they are no JSON."""
    payload = gzip.compress(record(0, b'"' + b"x" * (64 * MB) + end, ()))
    return produce([(topic, [(0, batch(payload, 1, attributes=GZIP))])]) * 20


TAPS = (
    Attack("98: 4 taps that nothing reads, requests of hostile names on 8 connections", while_tapped(small, 8, 20),
           more=TAPPED),
    Attack("99: 4 taps that nothing reads, batches that inflate to 64 MB on 4 connections", while_tapped(bombs, 4, 2),
           more=TAPPED),
)  # fmt: skip
