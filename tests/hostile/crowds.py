"""What costs little alone, by thousands in one moment: connections that end, and pages about all that clients did."""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial

from integration.validation.batches import batch, record

from hostile.attacks import Attack, Place, Run, sends
from hostile.habits import MORE as HABITS
from hostile.taps import bombs
from hostile.wire import ask, connect, converse, fetch, frame, produce

API_VERSIONS = 18
BAD = batch(record(0, b"{", ()), 1)
PAGES = (
    "metrics", "rejections", "rejections?client_id=none", "producers", "topics", "connections?client_id=none",
    "connections?closed", "connections?old", "configuration", "readyz?verbose",
)  # fmt: skip


def leave_together(count: int, opening: Sequence[bytes]) -> Run:
    """Connections that have all sent something, closed without a pause, again and again."""

    def run(place: Place) -> str:
        deadline, times = time.monotonic() + place.limit_s, 0
        while not times or time.monotonic() < deadline:
            socks: list[socket.socket] = []
            with suppress(OSError):
                for number in range(count):
                    socks.append(connect(place.kafka))
                    socks[-1].sendall(opening[number % len(opening)])
            time.sleep(0.5)
            for sock in socks:
                sock.close()
            times += 1
        return f"{count} connections were closed together {times} times"

    return run


def read_all_pages() -> Run:
    """Eight readers of every page, once clients of many names were rejected in many topics."""
    sent = b"".join(
        produce([(b"%d-" % number + b"t" * 200, [(0, BAD)])], client=b"%d-" % number + b"c" * 200)
        for number in range(3000)
    )
    asked = b"".join(f"GET /{page} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode() for page in PAGES)

    def run(place: Place) -> None:
        deadline = time.monotonic() + place.limit_s
        ask(place.kafka, sent, 3000, place.limit_s / 2)

        def read(_: int) -> None:
            while (left_s := deadline - time.monotonic()) > 0:
                converse(place.admin, asked, min(left_s, 1.0), quiet_s=0.5)

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(read, range(8)))

    return run


def fetch_bombs() -> Run:
    """Batches that inflate to 64 MB each, written at the broker itself, and fetched on eight connections."""
    data = bombs(b"lettered")

    def run(place: Place) -> str:
        host, _, port = place.direct.rpartition(":")
        written = ask((host, int(port)), data, 20, place.limit_s * 5)
        deadline = time.monotonic() + place.limit_s

        def one(_: int) -> int:
            return ask(place.kafka, fetch(b"lettered", 1) * 20, 20, deadline - time.monotonic())

        with ThreadPoolExecutor(8) as pool:
            return f"{written} batches were written, {sum(pool.map(one, range(8)))} responses came"

    return run


CROWDS = (
    Attack("113: 3,000 connections that end together",
           lambda: leave_together(3000, [frame(API_VERSIONS, 0, b"")])),
    Attack("114: 1,000 connections that end together, each with a rejected request that has no answer yet",
           lambda: leave_together(1000, [produce([(b"orders", [(0, BAD)])]) * 3])),
    Attack("115: all pages on 8 connections, after 3,000 clients were rejected in as many topics", read_all_pages,
           more=HABITS),
    Attack("117: batches that inflate to 64 MB on 32 connections, validated and intercepted", sends(bombs, 32)),
    Attack("118: the same batches, all rejected", sends(partial(bombs, end=b""), 32)),
    Attack("116: consumed batches that inflate to 64 MB, checked for 8 consumers", fetch_bombs,
           topics="  - {name: lettered, policy: json, consume: hide}\n"),
)  # fmt: skip
