"""The open taps of one process that serves clients. It is imported by the first one.

Nothing looks into requests before: the table of routes is made again when a tap opens, and when it closes.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial, reduce
from typing import Any

from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.plugins.effects import Work
from kafka_sidecar.proxy.relay.exchange import Closing
from kafka_sidecar.proxy.relay.watch import Tap
from kafka_sidecar.proxy.relay.watch_pairs import in_turn
from kafka_sidecar.proxy.runtime.connection import Connection
from kafka_sidecar.proxy.runtime.tasks import spawn
from kafka_sidecar.proxy.server.admin.rejections import latest
from kafka_sidecar.proxy.server.admin.tap.events import ConnectionEvents, RejectionEvents
from kafka_sidecar.proxy.server.admin.tap.open_tap import Deliver, OpenTap
from kafka_sidecar.proxy.server.admin.tap.reading import Key, Shown
from kafka_sidecar.proxy.server.admin.tap.records import Copies, Copy, records_tap
from kafka_sidecar.proxy.server.admin.tap.requests import requests_tap
from kafka_sidecar.proxy.server.admin.tap.wanted import CONNECTIONS, RECORDS, REJECTIONS, REQUESTS, Wanted
from kafka_sidecar.proxy.server.server import Server

log = logging.getLogger(__name__)

MAX_COPIED_BYTES = 32 << 20  # by all taps at a time
MAX_READINGS = 16  # copies that wait for a thread, or are read in one
RESOLVE_LIMIT_S = 5.0

MakeTap = Callable[[OpenTap, Any, int, int], Tap | None]
TAPS: Mapping[str, MakeTap] = {RECORDS: records_tap, REQUESTS: requests_tap}


class Hub:
    """Opens taps, and lets them see what passes."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._open: list[OpenTap] = []
        self._is_shown_requests = False
        self._connections: dict[OpenTap, ConnectionEvents] = {}
        self._copies = Copies(MAX_COPIED_BYTES)
        self._readings = 0

    def open(self, wanted: Wanted, deliver: Deliver) -> Callable[[], None]:
        """Show what is wanted from now on; what is returned ends it."""
        loop, config = asyncio.get_running_loop(), self._server.features.applied
        rate = self._server.config.share(config.tap.max_rate)
        one = OpenTap(wanted, rate, deliver, loop.call_later, time.monotonic)
        ends = [one.close]
        if wanted.kind == REJECTIONS:
            ends.append(RejectionEvents(one, partial(latest, self._server), loop.call_later).close)
        elif wanted.kind == CONNECTIONS:
            self._connections[one] = ConnectionEvents(one)
        self._open.append(one)
        self._compose()

        def close() -> None:
            for end in ends:
                end()
            self._open.remove(one)
            self._connections.pop(one, None)
            self._compose()

        return close

    def _compose(self) -> None:
        if self._is_shown_requests:
            self._server.remove_tap(self._tap)
        self._is_shown_requests = any(one.wanted.kind in TAPS for one in self._open)
        if self._is_shown_requests:
            self._server.add_tap(self._tap)
        self._server.watch_connections(self._connection if self._connections else None)

    def _tap(self, key: int, version: int) -> Tap | None:
        made = (TAPS[one.wanted.kind](one, self, key, version) for one in self._open if one.wanted.kind in TAPS)
        taps = [tap for tap in made if tap is not None]
        return reduce(in_turn, taps) if taps else None

    def _connection(self, connection: Connection, closing: Closing | None) -> None:
        for show in self._connections.values():
            show(connection, closing)

    # As a `records.Reader`

    def name_of(self, key: Key) -> str | None:
        return key if isinstance(key, str) else self._server.topics.name_of(key)

    def copy_of(self, size: int) -> Copy | None:
        return self._copies.take(size) if self._readings < MAX_READINGS else None

    def read_later(
        self, copy: Copy, topics: Iterable[Key], read: Callable[[], list[Shown]], done: Callable[[list[Shown]], None]
    ) -> None:
        self._readings += 1
        unknown = [key for key in topics if isinstance(key, bytes) and self.name_of(key) is None]
        spawn(self._read(copy, unknown, read, done), "read records for a tap")

    async def _read(
        self, copy: Copy, unknown: list[bytes], read: Callable[[], list[Shown]], done: Callable[[list[Shown]], None]
    ) -> None:
        try:
            if unknown:
                with suppress(OSError, CodecError, TimeoutError):
                    async with asyncio.timeout(RESOLVE_LIMIT_S):
                        await self._server.topics.resolve(unknown)
            done(await self._server.features.site.performer.perform(Work(read)))
        finally:
            self._readings -= 1
            del copy
