"""What one snapshot costs, in microseconds of CPU by step, and what it takes with many topics and connections.

usage: page_tick.py [--ticks N] [--readers N] [--topics N] [--connections N]

The sidecar runs in this process; brokers, clients and readers have processes of their own. How to read it:
bench/README.md
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import resource
import signal
import socket
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from itertools import pairwise
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests")]

import connections  # noqa: E402
import uvloop  # noqa: E402
from rig.frames import Address  # noqa: E402
from support.admin import admin_of, protocols  # noqa: E402
from support.in_process import port_of, serving  # noqa: E402

from kafka_sidecar.proxy.runtime.program import configure_allocator  # noqa: E402
from kafka_sidecar.proxy.server.admin.live import live as live_module  # noqa: E402
from kafka_sidecar.proxy.server.admin.live.encoding import members_of  # noqa: E402
from kafka_sidecar.proxy.server.admin.live.live import Live  # noqa: E402
from kafka_sidecar.proxy.server.admin.live.sample import STATE  # noqa: E402
from kafka_sidecar.proxy.server.admin.live.snapshot import Histories  # noqa: E402
from kafka_sidecar.proxy.server.admin.pages import Admin  # noqa: E402
from kafka_sidecar.proxy.server.server import Server  # noqa: E402
from kafka_sidecar.proxy.telemetry.metrics import Family, Metrics, counter  # noqa: E402

PARTS = ("", "?with=topics", "?with=rejections", "?with=connections", "?with=topics,rejections,connections")
STEPS = ("sample", "snapshot", "JSON", "other parts", "frames, sockets")
TURN_TICKS = 12
APIS = {0: "Produce", 1: "Fetch", 3: "Metadata", 12: "Heartbeat", 18: "ApiVersions", 22: "InitProducerId"}
ONCE = ("Metadata", "ApiVersions", "InitProducerId")  # counted at the start of a connection and then no more
BY_TOPIC = 4  # metrics
MOVING = 100  # topics, of which something is counted from one sample to the next
LIMIT_S = 120.0


class Counts:
    """What is counted: most of it stands still."""

    def __init__(self, topics: int) -> None:
        self._topics = {f"topic-{number:05}": 1 for number in range(topics)}

    @property
    def topics(self) -> list[str]:
        return list(self._topics)

    def families(self) -> Iterator[Family]:
        for number in range(BY_TOPIC if self._topics else 0):
            yield counter(f"bench_{number}", "A metric that is counted by topic", self._topics, "topic")

    def begin(self, metrics: Metrics) -> None:
        for listener in ("bootstrap", "node"):
            metrics.connections[listener] += 2
            metrics.active[listener] = 1
        metrics.disconnects["client_closed"] += 1
        for api in ONCE:
            self._count(metrics, api)

    def move(self, metrics: Metrics, tick: int) -> None:
        """A second passes."""
        for api in APIS.values():
            if api not in ONCE:
                self._count(metrics, api)
        for us in (100, 200):
            metrics.record_loop_delay(us / 1e6)
        for number in range(tick * MOVING, tick * MOVING + MOVING if self._topics else 0):
            self._topics[f"topic-{number % len(self._topics):05}"] += 1

    def _count(self, metrics: Metrics, name: str) -> None:
        key = next(key for key, api in APIS.items() if api == name)
        api = metrics.api(key, name)
        api.requests += 50
        api.request_bytes += 60_000
        api.responses += 50
        api.response_bytes += 4_000
        api.latency[10] += 40
        api.latency[11] += 10
        api.latency_us += 50_000
        if name in ONCE:
            api.add_buffered(20, 0.0001)


@contextmanager
def in_process(target: Callable[..., None], *words: Any) -> Iterator[Any]:
    """What a process of its own says first."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=target, args=(theirs, *words), daemon=True)
    process.start()
    try:
        yield ours.recv() if ours.poll(LIMIT_S) else sys.exit("a process has not begun in time")
    finally:
        process.kill()
        process.join()


def read(pipe: Pipe, port: int, number: int) -> None:
    """Open pages."""

    def one(parts: str) -> None:
        with socket.create_connection(("127.0.0.1", port)) as sock:
            sock.sendall(f"GET /live{parts} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            while sock.recv(1 << 20):
                pass

    for at in range(number):
        threading.Thread(target=one, args=(PARTS[at % len(PARTS)],), daemon=True).start()
    pipe.send(number)
    signal.pause()


def connect(pipe: Pipe, address: Address, number: int) -> None:
    """Clients that have sent a request and wait."""
    raise_limit()

    async def stay() -> None:
        opened = await connections.open_many(address, number)
        pipe.send(len(opened))
        await asyncio.Event().wait()

    asyncio.run(stay())


def serve(pipe: Pipe) -> None:
    raise_limit()
    connections.serve(pipe)


@asynccontextmanager
async def waiting_for(value: Any) -> AsyncIterator[Any]:
    """A context of a process, whose first word is waited for in a thread."""
    entered = await asyncio.to_thread(value.__enter__)
    try:
        yield entered
    finally:
        value.__exit__(None, None, None)


class Turns:
    """The longest turn of the event loop, in CPU time: a task that runs in each of them."""

    def __init__(self) -> None:
        self.longest_s = 0.0
        self._task = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        while True:
            before = time.process_time()
            await asyncio.sleep(0)
            self.longest_s = max(self.longest_s, time.process_time() - before)

    def end(self) -> float:
        self._task.cancel()
        return self.longest_s


async def measure(server: Server, live: Live, counts: Counts, ticks: int) -> list[list[float]]:
    """Microseconds of each step of each tick."""
    histories, wanted = Histories(), frozenset[str]().union(*live._readers.values())
    found: list[list[float]] = []
    for tick in range(ticks):
        counts.move(server.metrics, tick)
        at = [time.process_time()]
        samples = await live._source(frozenset({STATE}))
        at.append(time.process_time())
        snapshot = histories.snapshot(samples)
        at.append(time.process_time())
        members = {STATE: members_of(snapshot)}
        at.append(time.process_time())
        for part in wanted:
            members[part] = await live._part(part)
        at.append(time.process_time())
        live._members, live._encoded, live._has_rates = members, {}, True
        live._send(live._readers)
        await all_taken(live)
        at.append(time.process_time())
        found.append([(after - before) * 1e6 for before, after in pairwise(at)])
    return found


async def all_taken(live: Live) -> None:
    """By readers."""
    async with asyncio.timeout(LIMIT_S):
        while any(one._transport.get_write_buffer_size() for one in live._streams):  # type: ignore[attr-defined] # noqa: ASYNC110
            await asyncio.sleep(0)


async def longest_turn(server: Server, live: Live, counts: Counts, ticks: int) -> float:
    """Of these snapshots, the first one among them, which shows everything."""
    histories, wanted, turns = Histories(), frozenset[str]().union(*live._readers.values()), Turns()
    for tick in range(ticks):
        counts.move(server.metrics, tick)
        await live._show(histories, wanted)
        await all_taken(live)
    return turns.end()


async def run(options: argparse.Namespace) -> None:
    live_module.INTERVAL_S = live_module.FIRST_INTERVAL_S = 1e6  # it is sampled here
    counts = Counts(options.topics)
    async with waiting_for(in_process(serve)) as broker:  # noqa: SIM117
        async with serving(":".join(map(str, broker))) as server, admin_of(server) as port:
            configure_allocator()  # as the program does once it serves
            server.topics.remember((number.to_bytes(16, "big"), name) for number, name in enumerate(counts.topics, 1))
            server.metrics.features.append(counts.families)
            counts.begin(server.metrics)
            admin = protocols[-1].admin
            assert isinstance(admin, Admin)
            address = Address("127.0.0.1", port_of(server))
            async with (
                waiting_for(in_process(connect, address, options.connections)) as opened,
                waiting_for(in_process(read, port, options.readers)),
            ):
                while len(admin._live._streams) < options.readers:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
                before = resident()
                found = await measure(server, admin._live, counts, options.ticks)
                sizes = {",".join(sorted(parts)): len(one.line) for parts, one in admin._live._encoded.items()}
                turn_s = await longest_turn(server, admin._live, counts, max(TURN_TICKS, options.ticks // 10))
                say(options, opened, found, sizes, turn_s, resident() - before)


def say(
    options: argparse.Namespace,
    opened: int,
    found: Sequence[Sequence[float]],
    sizes: Mapping[str, int],
    turn_s: float,
    grown: int,
) -> None:
    print(f"{options.topics:,} topics, {opened:,} connections, {options.readers} readers, {options.ticks:,} ticks")
    for step, each in zip(STEPS, zip(*found, strict=True), strict=True):
        print(f"{step:>16} {median(each):9,.0f} us")
    print(f"{'one tick':>16} {median(map(sum, found)):9,.0f} us")
    print(f"longest turn {turn_s * 1e3:.1f} ms; memory grew by {grown / 1e6:.0f} MB")
    print("bytes: " + "; ".join(f"{parts or 'no parts'} {size:,}" for parts, size in sorted(sizes.items())))


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def raise_limit() -> None:
    _, files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--ticks", type=int, default=2000, help="snapshots that are taken; default: %(default)s")
    parser.add_argument("--readers", type=int, default=10, help="open pages; default: %(default)s")
    parser.add_argument("--topics", type=int, default=0, help="known topics, each with series; default: none")
    parser.add_argument("--connections", type=int, default=1, help="open connections; default: %(default)s")
    options = parser.parse_args()
    raise_limit()
    uvloop.run(run(options))
    return 0


if __name__ == "__main__":
    sys.exit(main())
