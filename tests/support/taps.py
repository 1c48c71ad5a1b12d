"""Open taps without an event loop: what they show, and what is read later is read when the test says so."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from kafka_sidecar.proxy.server.admin.tap.open_tap import OpenTap
from kafka_sidecar.proxy.server.admin.tap.reading import Key, Shown
from kafka_sidecar.proxy.server.admin.tap.records import Copies, Copy, records_tap
from kafka_sidecar.proxy.server.admin.tap.requests import requests_tap
from kafka_sidecar.proxy.server.admin.tap.wanted import wanted_of
from support.dialogue import Dialogue

Row = dict[str, Any]


class Timers:
    """Calls that are due when the test says so."""

    def __init__(self) -> None:
        self.due: list[tuple[float, Callable[[], None]]] = []

    def __call__(self, after_s: float, call: Callable[[], None]) -> Timer:
        self.due.append((after_s, call))
        return Timer(partial(self.drop, call))

    def drop(self, call: Callable[[], None]) -> None:
        self.due = [one for one in self.due if one[1] != call]

    def run(self) -> None:
        due, self.due = self.due, []
        for _, call in due:
            call()


class Timer:
    def __init__(self, cancel: Callable[[], None]) -> None:
        self.cancel = cancel


class Tapped:
    """A tap, its reader of frames, and the lines that it has delivered."""

    def __init__(
        self, query: str, rate: int = 500, names: dict[bytes, str] | None = None, room: int = 32 << 20
    ) -> None:
        self.lines: list[Row] = []
        self.skipped = 0
        self.now = 0.0
        self.timers = Timers()
        self.names = names or {}
        self.later: list[tuple[Copy, set[Key], Callable[[], list[Shown]], Callable[[list[Shown]], None]]] = []
        self.copies = Copies(room)
        self.copied = 0
        self.open = OpenTap(wanted_of(query), rate, self._deliver, self.timers, lambda: self.now)

    def _deliver(self, lines: bytes, number: int, skipped: int) -> None:
        found = list(map(json.loads, lines.splitlines()))
        assert len(found) == number
        self.lines += found
        self.skipped += skipped

    def flush(self) -> list[Row]:
        """All that was shown so far."""
        while self.timers.due:
            self.timers.run()
        return self.lines

    def dialogue(self, **settings: Any) -> Dialogue:
        """A session whose requests the tap watches."""
        make = records_tap if self.open.wanted.kind == "records" else requests_tap
        return Dialogue(tap=lambda key, version: make(self.open, self, key, version), **settings)

    def read_all(self) -> None:
        """Read what waits for a thread."""
        for _, _, read, done in self.later:
            done(read())
        self.later.clear()

    # As a `records.Reader`

    def name_of(self, key: Key) -> str | None:
        return key if isinstance(key, str) else self.names.get(key)

    def copy_of(self, size: int) -> Copy | None:
        self.copied += 1
        return self.copies.take(size)

    def read_later(
        self, copy: Copy, topics: Iterable[Key], read: Callable[[], list[Shown]], done: Callable[[list[Shown]], None]
    ) -> None:
        self.later.append((copy, set(topics), read, done))
