"""What an open page or tap adds to one Produce request of 40 KB, in microseconds: one session, without sockets.

usage: watched_requests.py [--requests N]

Between two requests the CPU's caches are emptied, as they are in a sidecar whose machine does other things meanwhile.
How to read it: bench/README.md
"""

from __future__ import annotations

import argparse
import asyncio
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
from kafka_sidecar.proxy.server.admin.tap.wanted import wanted_of
from kafka_sidecar.proxy.server.server import Server
from kafka_sidecar.proxy.telemetry.metrics import Metrics

REQUEST_BYTES = 40_000
MAX_FRAME_BYTES = 100 << 20
CACHE_BYTES = 24 << 20  # more than the caches of one core, and much of those that cores share
SHARE = 0.95  # of the measurements; in the others the process has waited for others

MakeTap = Callable[[int, int], Tap | None]


class Names:
    """What counts and taps know of a server."""

    topics = cast(TopicNameCache, None)  # requests name topics

    def name_of(self, key: str | bytes) -> str | None:
        return key if isinstance(key, str) else None


def open_tap(query: str, rate: int) -> MakeTap:
    tap = OpenTap(wanted_of(query), rate, lambda *_: None, asyncio.get_running_loop().call_later, lambda: 0.0)
    tap.grant(rate * 10)  # all that there are, as its clock stands still
    return lambda key, version: records_tap(tap, cast(Hub, Names()), key, version)


def session(tap: MakeTap) -> Session:
    metrics = Metrics()
    rewrites = Rewrites(lambda node, host, port: (host, port), lambda *_: None)
    routes = Routes(metrics, rewrites.response, local_response, tap=tap)
    memory = MemoryBudget(MAX_FRAME_BYTES, metrics.buffered)
    return Session(routes, time.monotonic, MAX_FRAME_BYTES, LoopBudget(), memory)


def measure(one: Session, number: int, is_cold: bool, junk: tuple[bytearray, bytearray]) -> float:
    """Microseconds of a request."""
    data, answer = frames.produce_request(REQUEST_BYTES).one(number), ANSWER.one(number)
    if is_cold:
        junk[0][:] = junk[1]
    len(data.strip(b"\0"))  # it has just been read from a socket
    began = time.perf_counter_ns()
    one.from_client(data)
    took = time.perf_counter_ns() - began
    one.from_broker(answer)
    return took / 1e3


ANSWER = frames.response(frames.produce_response(1, 0))


async def run(requests: int) -> None:
    made: dict[str, MakeTap] = {
        "nothing is open": lambda key, version: None,
        "a page that shows topics": Traffic(cast(Server, Names())).tap,
        "a tap, over its rate": open_tap("kind=records", 1),
        "a tap of another topic": open_tap("kind=records&topic=other", 100),
    }
    sessions = {name: session(tap) for name, tap in made.items()}
    found: dict[tuple[str, bool], list[float]] = {(name, cold): [] for name in made for cold in (True, False)}
    junk = bytearray(CACHE_BYTES), bytearray(CACHE_BYTES)
    for number in range(requests):
        for name, one in sessions.items():
            for is_cold in (True, False):
                found[name, is_cold].append(measure(one, 2 * number + is_cold, is_cold, junk))
    print(f"{'us of a Produce request':>25} {'caches empty':>13} {'mean':>6} {'not empty':>10} {'mean':>6}")
    for name in made:
        cold, warm = found[name, True], found[name, False]
        print(f"{name:>25} {median(cold):13.1f} {mean(cold):6.1f} {median(warm):10.1f} {mean(warm):6.1f}")


def mean(values: list[float]) -> float:
    return fmean(sorted(values)[: max(1, int(len(values) * SHARE))])


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--requests", type=int, default=500, help="of each row; default: %(default)s")
    asyncio.run(run(parser.parse_args().requests))
    return 0


if __name__ == "__main__":
    sys.exit(main())
