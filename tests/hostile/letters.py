"""A client whose records are all rejected, and each of them is a dead letter: as fast as it can, for as long as a row
takes (`--seconds 600` for ten minutes)."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from harness import admin_pages
from integration.validation.batches import batch, record

from hostile.attacks import Attack, Place, Run
from hostile.wire import ask, produce

TOPIC = "lettered"
TOPICS = f'  - {{name: {TOPIC}.dlq}}\n  - {{name: {TOPIC}, policy: json, dead_letters: "{{topic}}.dlq"}}\n'
MORE = """
dead_letters:
  spool_folder: FOLDER/letters
  create: {configs: {retention.bytes: "200000000", segment.bytes: "50000000"}}
"""
SERIES = re.compile(
    r'^kafka_sidecar_dead_letters_([a-z_]+?)(?:_total)?(?:\{(?:reason|topic)="([^"]*)"\})? ([\d.e+]+)$', re.M
)


def refused(records: int, size: int) -> bytes:
    """A request with such a batch, none of whose values is JSON."""
    value = b"{" + b"x" * size
    payload = b"".join(record(at, value, ()) for at in range(records))
    return produce([(TOPIC.encode(), [(0, batch(payload, records))])])


def endlessly(make: Callable[[], bytes], times: int, connections: int) -> Callable[[], Run]:
    """So many requests at once, again once they are answered, and what has become of them.

    Whoever does not wait for answers leaves more and more to do: that is no matter of letters.
    """

    def prepare() -> Run:
        return partial(_flood, make() * times, times, connections)

    return prepare


def _flood(data: bytes, times: int, connections: int, place: Place) -> str:
    deadline = time.monotonic() + place.limit_s

    def one(_: int) -> None:
        while (left := deadline - time.monotonic()) > 0:
            ask(place.kafka, data, times, left)

    with ThreadPoolExecutor(connections) as pool:
        list(pool.map(one, range(connections)))
    host, port = place.admin
    page = admin_pages.get(f"http://{host}:{port}/metrics").text
    found = {f"{name} {label}".strip(): int(float(value)) for name, label, value in SERIES.findall(page)}
    return f"dead letters after {place.limit_s:g} s: " + ", ".join(f"{name} {value:,}" for name, value in found.items())


LETTERS = (
    Attack("76: only rejected records, one a batch, each a dead letter, on 4 connections",
           endlessly(lambda: refused(1, 100), 5000, 4), topics=TOPICS, more=MORE),
    Attack("77: only rejected records, 10,000 a batch, each a dead letter, on 4 connections",
           endlessly(lambda: refused(10_000, 90), 4, 4), topics=TOPICS, more=MORE),
    Attack("78: only rejected values of 900 KB, each a dead letter, on 4 connections",
           endlessly(lambda: refused(1, 900_000), 8, 4), topics=TOPICS, more=MORE),
)  # fmt: skip
