"""What connections cost: memory and CPU of idle ones, and how soon a new one is served beside busy ones.

usage: connections.py [--idle N] [--busy N] [--seconds S] [--markdown FILE]

How it measures and how to read it: bench/README.md
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import multiprocessing
import resource
import sys
import time
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from struct import pack
from typing import Final

from rig import frames, report
from rig.connection import Loop
from rig.cores import on_two_cores
from rig.frames import Address
from rig.peers import Setting, free_ports, kafka_sidecar
from rig.process import Process
from rig.stub_broker import StubBroker

SPARE_FILES: Final = 200
HEARTBEAT: Final = 12
AT_A_TIME: Final = 100  # connections that are opened
PROBES: Final = 200  # new connections beside the busy ones
LIMIT_S: Final = 60.0


class Client(asyncio.Protocol):
    """Sends one request at a time."""

    def __init__(self) -> None:
        self._received = b""
        self._response: asyncio.Future[None] | None = None
        self._transport: asyncio.Transport | None = None

    @classmethod
    async def open(cls, address: Address) -> Client:
        """A connection whose first request, ApiVersions, was answered."""
        _, client = await asyncio.get_running_loop().create_connection(cls, *address)
        await client.ask(frames.api_versions_request().one(1))
        return client

    async def ask(self, request: bytes) -> None:
        """Returns once the response is whole."""
        assert self._transport is not None
        self._response = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        await self._response

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        if len(self._received) >= 4 and len(self._received) == 4 + int.from_bytes(self._received[:4], "big"):
            assert self._response is not None
            self._received = b""
            self._response.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        if self._response is not None and not self._response.done():
            self._response.set_exception(error or EOFError("closed"))

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


def serve(pipe: Pipe) -> None:
    """The broker, in a process of its own: one process may not open as many files as both sides need."""
    loop = Loop()
    broker = StubBroker(loop)
    broker.responses[HEARTBEAT] = frames.response(bytes(6))
    pipe.send(broker.address)
    while True:
        loop.poll(LIMIT_S)


@dataclass(frozen=True, slots=True)
class Figures:
    """What was measured."""

    idle: int
    idle_bytes: float  # of memory, for each connection
    idle_cpu: float  # of a core, for all
    closed_bytes: int  # of memory that is more than before, once all are closed
    busy: int
    requests_s: float
    first_ms: list[float]  # from a connection's start to its first response, sorted

    def rows(self) -> str:
        p50, p99 = (self.first_ms[int(len(self.first_ms) * share)] for share in (0.5, 0.99))
        lines = [
            (f"{self.idle:,} idle connections: memory of each", f"{self.idle_bytes / 1024:.1f} KiB"),
            ("their CPU", f"{self.idle_cpu:.1%} of a core"),
            ("memory after they have closed, more than before", f"{self.closed_bytes / (1 << 20):.0f} MiB"),
            (f"{self.busy:,} busy connections: requests a second", f"{self.requests_s:,.0f}"),
            ("a new connection beside them: p50 to the first response", f"{p50:.0f} ms"),
            ("p99", f"{p99:.0f} ms"),
        ]
        return "\n".join(["| what | figure |", "| --- | ---: |", *(f"| {what} | {figure} |" for what, figure in lines)])


async def measure(sidecar: Process, address: Address, options: argparse.Namespace) -> Figures:
    await until_served(sidecar, address)
    before = sidecar.rss_bytes()
    idle = await open_many(address, options.idle)
    idle_bytes = (sidecar.rss_bytes() - before) / len(idle)
    await asyncio.sleep(2)  # what opening them has left to do
    cpu_ns, began = sidecar.cpu_ns(), time.perf_counter_ns()
    await asyncio.sleep(options.seconds)
    idle_cpu = (sidecar.cpu_ns() - cpu_ns) / (time.perf_counter_ns() - began)
    for client in idle:
        client.close()
    await asyncio.sleep(3)
    closed_bytes = sidecar.rss_bytes() - before
    requests, first_ms = await beside_busy_ones(address, options)
    return Figures(
        options.idle, idle_bytes, idle_cpu, closed_bytes, options.busy, requests / options.seconds, sorted(first_ms)
    )


async def until_served(sidecar: Process, address: Address) -> None:
    async with asyncio.timeout(LIMIT_S):
        while True:
            try:
                (await Client.open(address)).close()
            except (OSError, EOFError):
                if not sidecar.alive():
                    raise
                await asyncio.sleep(0.05)
            else:
                return


async def open_many(address: Address, count: int) -> list[Client]:
    clients: list[Client] = []
    while len(clients) < count:
        share = min(AT_A_TIME, count - len(clients))
        clients += await asyncio.gather(*(Client.open(address) for _ in range(share)))
    return clients


async def beside_busy_ones(address: Address, options: argparse.Namespace) -> tuple[int, list[float]]:
    """Requests of the busy connections, and milliseconds to the first response of new ones."""
    clients, requests = await open_many(address, options.busy), 0
    heartbeat = frames.Frame(pack(">ihh", 10, HEARTBEAT, 3), pack(">h", -1))
    is_over = False

    async def keep_busy(client: Client) -> None:
        nonlocal requests
        for number in itertools.count():
            if is_over:
                return
            await client.ask(heartbeat.one(number))
            requests += 1

    work = [asyncio.ensure_future(keep_busy(client)) for client in clients]
    await asyncio.sleep(1)
    requests, first_ms = 0, []
    for _ in range(PROBES):
        began = time.perf_counter()
        (await Client.open(address)).close()
        first_ms.append((time.perf_counter() - began) * 1e3)
        await asyncio.sleep(max(0.0, options.seconds / PROBES - (time.perf_counter() - began)))
    counted, is_over = requests, True
    await asyncio.gather(*work)
    for client in clients:
        client.close()
    return counted, first_ms


def run(options: argparse.Namespace, folder: Path, core: int | None) -> None:
    ours, theirs = multiprocessing.Pipe()
    broker = multiprocessing.Process(target=serve, args=(theirs,), daemon=True)
    broker.start()
    address = free_ports()
    command = kafka_sidecar(Setting(address, ours.recv(), folder))
    sidecar = Process(command, folder / "log", core)
    try:
        figures = asyncio.run(measure(sidecar, address, options))
    finally:
        sidecar.stop()
        broker.kill()
    report.publish(options, figures.rows())


def arguments(files: int) -> argparse.Namespace:
    fit = (files - SPARE_FILES) // 2
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--idle", type=int, default=min(10_000, fit), help="idle connections (default: %(default)s)")
    parser.add_argument("--busy", type=int, default=1_000, help="busy connections (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each measurement (default: %(default)s)")
    parser.add_argument("--markdown", type=Path, help="write the report to this file")
    options = parser.parse_args()
    if options.idle > fit or options.busy > fit:
        sys.exit(f"the limit of open files ({files}) has room for {fit} connections: raise it with ulimit -n")
    return options


def main() -> None:
    _, files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    on_two_cores("connections", partial(run, arguments(files)))


if __name__ == "__main__":
    main()
