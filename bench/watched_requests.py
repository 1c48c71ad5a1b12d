"""What an open page or tap adds to one Produce request of 40 KB and its response, in microseconds of CPU: one session,
without sockets. Lines of a tap are made after each of `LINES` requests, and their time is that of all of these.

usage: watched_requests.py [--requests N]

Between two requests the CPU's caches are emptied, as they are in a sidecar whose machine does other things meanwhile.
How to read it: bench/README.md
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from statistics import fmean, median
from typing import cast

from rig import frames

from kafka_sidecar.proxy.nodes.rewrites import Rewrites, local_response
from kafka_sidecar.proxy.nodes.topic_names import TopicNameCache
from kafka_sidecar.proxy.relay.exchange_driver import LoopBudget
from kafka_sidecar.proxy.relay.memory_budget import MemoryBudget
from kafka_sidecar.proxy.relay.routes import Routes
from kafka_sidecar.proxy.relay.session import Session
from kafka_sidecar.proxy.relay.watch import Tap
from kafka_sidecar.proxy.server.admin.live.traffic import Traffic
from kafka_sidecar.proxy.server.admin.tap.hub import Hub
from kafka_sidecar.proxy.server.admin.tap.open_tap import OpenTap
from kafka_sidecar.proxy.server.admin.tap.records import records_tap
from kafka_sidecar.proxy.server.admin.tap.requests import requests_tap
from kafka_sidecar.proxy.server.admin.tap.wanted import wanted_of
from kafka_sidecar.proxy.server.server import Server
from kafka_sidecar.proxy.telemetry.metrics import Metrics

REQUEST_BYTES = 40_000
MAX_FRAME_BYTES = 100 << 20
CACHE_BYTES = 24 << 20  # more than the caches of one core, and much of those that cores share
SHARE = 0.95  # of the measurements; in the others the process has waited for others
LINES = 40  # of 150 requests a second, those of a quarter of one

NONE_LEFT, UNLIMITED = 1, 1 << 40  # lines a second

NOTHING = "nothing is open"
TAPS = {
    "records, over the rate": ("kind=records", NONE_LEFT),
    "records of another topic": ("kind=records&topic=other", UNLIMITED),
    "requests": ("kind=requests", UNLIMITED),
    "requests over the rate": ("kind=requests", NONE_LEFT),
    "requests, another topic": ("kind=requests&topic=other", UNLIMITED),
}

MakeTap = Callable[[int, int], Tap | None]


class Names:
    """What counts and taps know of a server."""

    topics = cast(TopicNameCache, None)  # requests name topics

    def name_of(self, key: str | bytes) -> str | None:
        return key if isinstance(key, str) else None


class Turns:
    """Calls of taps that are due once the bench says so."""

    def __init__(self) -> None:
        self._due: list[Callable[[], None]] = []

    def later(self, after_s: float, call: Callable[[], None]) -> Turns:
        self._due = [call]
        return self

    def cancel(self) -> None:
        self._due = []

    def run(self) -> None:
        due, self._due = self._due, []
        for call in due:
            call()


def open_tap(turns: Turns, query: str, rate: int) -> MakeTap:
    tap = OpenTap(wanted_of(query), rate, lambda *_: None, turns.later, lambda: 0.0)
    if rate == NONE_LEFT:
        tap.grant(rate * 10)  # all that there are, as its clock stands still
    make = records_tap if tap.wanted.kind == "records" else requests_tap
    return lambda key, version: make(tap, cast(Hub, Names()), key, version)


def session(tap: MakeTap) -> Session:
    metrics = Metrics()
    rewrites = Rewrites(lambda node, host, port: (host, port), lambda *_: None)
    routes = Routes(metrics, rewrites.response, local_response, tap=tap)
    memory = MemoryBudget(MAX_FRAME_BYTES, metrics.buffered)
    return Session(routes, time.monotonic, MAX_FRAME_BYTES, LoopBudget(), memory)


def measure(work: Callable[[], object], junk: tuple[bytearray, bytearray] | None) -> float:
    """Microseconds of CPU; ``junk``: what the caches are emptied with."""
    if junk is not None:
        junk[0][:] = junk[1]
    began = time.thread_time_ns()
    work()
    return (time.thread_time_ns() - began) / 1e3


def exchange(one: Session, number: int, junk: tuple[bytearray, bytearray] | None) -> float:
    """Microseconds of a request and its response."""
    data, answer = frames.produce_request(REQUEST_BYTES).one(number), ANSWER.one(number)
    if junk is not None:
        junk[0][:] = junk[1]
    len(data.strip(b"\0"))  # it has just been read from a socket
    return measure(lambda: one.from_client(data), None) + measure(lambda: one.from_broker(answer), junk)


ANSWER = frames.response(frames.produce_response(1, 0))


def run(requests: int) -> None:
    turns: dict[str, Turns] = {}

    def tap(name: str, query: str, rate: int) -> MakeTap:
        turns[name] = Turns()
        return open_tap(turns[name], query, rate)

    made: dict[str, MakeTap] = {
        NOTHING: lambda key, version: None,
        "a page that shows topics": Traffic(cast(Server, Names())).tap,
        **{name: tap(name, *asked) for name, asked in TAPS.items()},
    }
    sessions = {name: session(make) for name, make in made.items()}
    emptied = bytearray(CACHE_BYTES), bytearray(CACHE_BYTES)
    found: dict[tuple[str, bool], list[float]] = {}
    lines: dict[tuple[str, bool], list[float]] = {}
    for is_cold, junk in ((True, emptied), (False, None)):
        for number in range(requests):
            for name, one in sessions.items():
                found.setdefault((name, is_cold), []).append(exchange(one, number, junk))
                if name in turns and number % LINES == LINES - 1:
                    lines.setdefault((name, is_cold), []).append(measure(turns[name].run, junk) / LINES)
    columns = f"{'median':>7} {'mean':>6} {'lines':>6}"
    print(f"us of a request and its response, caches empty, and not empty\n{'':25} {columns} {columns}")
    for name in made:
        figures = [found[name, is_cold] for is_cold in (True, False)]
        of_lines = [median(lines.get((name, is_cold), [0.0])) for is_cold in (True, False)]
        shown = [
            f"{median(one):7.1f} {mean(one):6.1f} {of_line:6.1f}"
            for one, of_line in zip(figures, of_lines, strict=True)
        ]
        print(f"{name:>25} {' '.join(shown)}")


def mean(values: list[float]) -> float:
    return fmean(sorted(values)[: max(1, int(len(values) * SHARE))])


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--requests", type=int, default=500, help="of each row; default: %(default)s")
    run(parser.parse_args().requests)
    return 0


if __name__ == "__main__":
    sys.exit(main())
