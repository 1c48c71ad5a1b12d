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
from hostile.wire import ask, converse, produce

TOPIC = "lettered"
TOPICS = f'  - {{name: {TOPIC}.dlq}}\n  - {{name: {TOPIC}, policy: json, dead_letters: "{{topic}}.dlq"}}\n'
MORE = """
dead_letters:
  spool_folder: FOLDER/letters
  create: {configs: {retention.bytes: "200000000", segment.bytes: "50000000"}}
"""
QUIET_S = 0.05
SERIES = re.compile(
    r'^kafka_sidecar_dead_letters_([a-z_]+?)(?:_total)?(?:\{(?:reason|topic)="([^"]*)"\})? ([\d.e+]+)$', re.M
)


def refused(records: int, size: int) -> bytes:
    """A request with such a batch, none of whose values is JSON."""
    value = b"{" + b"x" * size
    payload = b"".join(record(at, value, ()) for at in range(records))
    return produce([(TOPIC.encode(), [(0, batch(payload, records))])])


def endlessly(make: Callable[[], bytes], times: int, connections: int, waits: bool = False) -> Callable[[], Run]:
    """So many requests at once on a new connection, again and again, and what has become of them.

    ``waits``: until all are answered; otherwise until nothing has come for `QUIET_S`, so that more and more is left.
    """

    def prepare() -> Run:
        data = make() * times

        def send(place: Place, left_s: float) -> None:
            if waits:
                ask(place.kafka, data, times, left_s)
            else:
                converse(place.kafka, data, left_s, QUIET_S)

        return partial(_flood, send, connections)

    return prepare


def _flood(send: Callable[[Place, float], None], connections: int, place: Place) -> str:
    deadline = time.monotonic() + place.limit_s

    def one(_: int) -> None:
        while (left_s := deadline - time.monotonic()) > 0:
            send(place, left_s)

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
    Attack("79: the same, by clients that wait for their answers",
           endlessly(lambda: refused(10_000, 90), 4, 4, waits=True), topics=TOPICS, more=MORE),
    Attack("78: only rejected values of 900 KB, each a dead letter, on 4 connections",
           endlessly(lambda: refused(1, 900_000), 8, 4), topics=TOPICS, more=MORE),
)  # fmt: skip
