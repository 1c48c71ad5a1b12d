"""The client's end: runs one workload against one address and counts the responses."""

from __future__ import annotations

import gc
import socket
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import quantiles
from typing import Any, Final

from rig import frames
from rig.connection import Connection, Loop
from rig.frames import Address, Frame
from rig.process import Process, machine_busy_ns
from rig.stub_broker import StubBroker

LIMIT_S: Final = 10.0  # for anything that should take milliseconds


class BenchError(Exception):
    """A peer violated what every proxy must do; its figures would be meaningless."""


@dataclass(frozen=True, slots=True)
class Workload:
    """The load: ``depth`` requests in flight on each of ``connections``."""

    title: str
    connections: int
    depth: int
    produce_bytes: int = 0  # records in a Produce request; or
    fetch_bytes: int = 0  # records in a Fetch response
    target: float | None = None  # proxy CPU per request, as a multiple of haproxy's
    is_latency: bool = False
    batches: tuple[bytes, ...] = ()  # or these, one for each partition
    fetch_records: bytes = b""  # or these in a Fetch response
    records: int = 1  # in one request

    def request(self) -> Frame:
        if self.batches:
            return frames.produce_batches(self.batches)
        if fetch_bytes := self.fetch_bytes or len(self.fetch_records):
            return frames.fetch_request(fetch_bytes)
        return frames.produce_request(self.produce_bytes)


@dataclass(frozen=True, slots=True)
class Result:
    """One run. Times are in seconds."""

    requests: int
    wall_s: float
    cpu_s: float  # of the proxy
    others_s: float  # CPU time that went to neither the bench nor the proxy
    peak_rss_bytes: int  # of the proxy, so far
    latency_s: tuple[float, float] | None  # p50 and p99, where one request at a time is in flight
    load_s: float = 0.0  # CPU of the bench

    @property
    def cpu_us_per_request(self) -> float:
        return self.cpu_s * 1e6 / self.requests


class Driver:
    """The client and the stub broker in the same loop, so that both ends share one core."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.broker = StubBroker(loop)
        self.secure: Callable[[socket.socket], Any] = lambda sock: sock  # what clients do with a new connection
        self._poll: Callable[[], None] = loop.poll

    def close(self) -> None:
        self.broker.close()

    def run(
        self, workload: Workload, bootstrap: Address, proxy: Process | None, warm_up_s: float, seconds: float
    ) -> Result:
        """Load ``bootstrap``, the address of ``proxy``, for ``seconds`` after a warm-up.

        Raises BenchError if requests got lost or bypassed the proxy, AssertionError for a wrong correlation id.
        """
        self.broker.prepare(workload.fetch_bytes, len(workload.batches) or 1, workload.fetch_records)
        request = workload.request()
        clients = [
            Client(self.loop, self.dial(node), request, workload.depth, first=number << 22)
            for number, node in enumerate(self.nodes(bootstrap, workload.connections))
        ]
        gc.collect()
        gc.disable()
        try:
            for client in clients:
                client.start()
            self._poll_for(warm_up_s)
            result = self._measure(clients, proxy, seconds)
            self._check(clients, bootstrap)
        finally:
            gc.enable()
            for client in clients:
                client.connection.close()
            self._poll_for(0.05)  # so that the proxy and the stub see the end
        return result

    def _measure(self, clients: list[Client], proxy: Process | None, seconds: float) -> Result:
        """Reads CPU time twice while all connections are open: a child that has ended is no longer counted."""
        for client in clients:
            client.latencies_ns.clear()
        before = sum(client.done for client in clients)
        before_ns, began = _clocks_ns(proxy), time.perf_counter()
        self._poll_for(seconds)
        for client in clients:
            client.is_open = False
        self._drain(clients)
        wall_s = time.perf_counter() - began
        busy_ns, driver_ns, proxy_ns = (now - then for now, then in zip(_clocks_ns(proxy), before_ns, strict=True))
        return Result(
            requests=sum(client.done for client in clients) - before,
            wall_s=wall_s,
            cpu_s=proxy_ns / 1e9,
            others_s=max(0, busy_ns - driver_ns - proxy_ns) / 1e9,
            peak_rss_bytes=proxy.peak_rss_bytes() if proxy else 0,
            latency_s=_p50_p99(clients),
            load_s=driver_ns / 1e9,
        )

    def nodes(self, bootstrap: Address, connections: int) -> list[Address]:
        """Where each connection goes: all to the address that one of them was given."""
        return [self.learn_node(bootstrap)] * connections

    def learn_node(self, bootstrap: Address) -> Address:
        """Bootstrap as clients do: ApiVersions, then Metadata; the address of the cluster's one node."""
        with self.dial(bootstrap) as sock:
            self.ask(sock, frames.api_versions_request())
            return frames.node_address(self.ask(sock, frames.metadata_request()))

    def ask(self, sock: socket.socket, request: Frame) -> bytes:
        """Send one request and wait for its response: correlation id and body. Raises BenchError without one."""
        answer, deadline = b"", time.monotonic() + LIMIT_S
        sock.setblocking(False)
        sock.sendall(request.one(7))
        while len(answer) < 4 or len(answer) < 4 + int.from_bytes(answer[:4], "big"):
            self.loop.poll(0.0002)
            try:
                chunk = sock.recv(65536)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise BenchError("no response within the time limit") from None
                continue
            if not chunk:
                raise BenchError("the connection was closed instead of a response")
            answer += chunk
        if answer[4:8] != (7).to_bytes(4, "big"):
            raise BenchError("the response has another correlation id than the request")
        return answer[4:]

    def dial(self, address: Address) -> Any:
        """A connection, with TLS if the driver uses it."""
        return self.secure(socket.create_connection(address, timeout=LIMIT_S))

    def _poll_for(self, seconds: float) -> None:
        deadline, poll, clock = time.perf_counter() + seconds, self._poll, time.perf_counter
        while clock() < deadline:
            poll()

    def _drain(self, clients: list[Client]) -> None:
        deadline = time.perf_counter() + LIMIT_S
        while any(client.in_flight for client in clients):
            self._poll()
            if time.perf_counter() > deadline:
                raise BenchError(f"{sum(client.in_flight for client in clients)} requests got no response")

    def _check(self, clients: list[Client], bootstrap: Address) -> None:
        done = sum(client.done for client in clients)
        if self.broker.served != done:
            raise BenchError(f"the clients saw {done} responses, the broker {self.broker.served} requests")
        # By the address they were made to: two connections to two ports may have the same local port.
        around = sum(Address(*client.connection.sock.getpeername()) == self.broker.address for client in clients)
        if around and bootstrap != self.broker.address:
            raise BenchError(f"{around} connections went to the broker directly, without the proxy")


class Client:
    """One connection that keeps ``depth`` requests in flight. With a depth of 1 it also times each."""

    def __init__(self, loop: Loop, sock: socket.socket, request: Frame, depth: int, first: int) -> None:
        self.connection = Connection(loop, sock, frames.RESPONSE_HEAD, self._on_frames, self._on_end)
        self.latencies_ns: list[int] = []
        self.is_open = True
        self._request, self._depth = request, depth
        self._first = self._due = self._next = first
        self._sent_at_ns = 0

    def start(self) -> None:
        self._send(self._depth)

    @property
    def done(self) -> int:
        return self._due - self._first

    @property
    def in_flight(self) -> int:
        return self._next - self._due

    def _send(self, count: int) -> None:
        pieces = self._request.stamp(self._next, count)
        self._next += count
        self._sent_at_ns = time.perf_counter_ns()
        self.connection.write(pieces)

    def _on_frames(self, heads: list[tuple[int, ...]]) -> None:
        if self._depth == 1:
            self.latencies_ns.append(time.perf_counter_ns() - self._sent_at_ns)
        due = self._due
        for _, correlation in heads:
            if correlation != due:
                raise AssertionError(f"response {correlation} reached the client where {due} was due")
            due += 1
        self._due = due
        if self.is_open:
            self._send(len(heads))

    def _on_end(self) -> None:
        raise BenchError("a connection was closed while it was in use")


def _clocks_ns(proxy: Process | None) -> tuple[int, int, int]:
    """CPU time of the whole machine, of this process and of the proxy."""
    return machine_busy_ns(), time.process_time_ns(), proxy.cpu_ns() if proxy else 0


def _p50_p99(clients: Iterable[Client]) -> tuple[float, float] | None:
    latencies = [latency / 1e9 for client in clients for latency in client.latencies_ns]
    if len(latencies) < 2:
        return None
    cuts = quantiles(latencies, n=100)
    return cuts[49], cuts[98]
