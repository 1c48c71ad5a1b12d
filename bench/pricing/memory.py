"""Resident memory: of processes, of idle and busy connections, and while large messages pass."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from rig import frames
from rig.connection import Loop
from rig.process import Process, cpu_ns
from rig.secured import write_certificate
from rig.steady import mock_cluster
from rig.target import Target

from pricing import clients, model
from pricing.loads import LARGE, Case
from pricing.memory_figures import Memory
from pricing.runs import Features, target

SETTLE_S: Final = 2.0
IDLE, IDLE_TLS, BUSY = 300, 100, 50  # connections
NONE: Final[Features] = frozenset()
BOTH: Final[Features] = frozenset({model.TLS_CLIENTS, model.TLS_BROKERS})
CHECKED: Final[Features] = frozenset({model.JSON})
TWO_WORKERS: Final = "workers: 2\nnodes: {ports: 4}\n"
LARGE_MESSAGES: Final = "large_messages: {topics: [{name: bench, max_batch: 1MiB}]}\n"
LARGE_BYTES, LARGE_PER_S = 8_000_000, 2


def measure(folder: Path, core: int | None, seconds: float) -> Memory:
    certificate, loop = write_certificate(folder), Loop()
    process_mb, idle_cpu_us = process(target(NONE, loop, folder, certificate), core, seconds)
    with_workers_mb, _ = process(target(NONE, loop, folder, certificate, TWO_WORKERS), core, 0)
    idle_kb, connections_cpu_us = idle(target(NONE, loop, folder, certificate), core, IDLE, seconds)
    idle_tls_kb, _ = idle(target(BOTH, loop, folder, certificate), core, IDLE_TLS, 0)
    busy_kb = busy(target(NONE, loop, folder, certificate), core, Case(NONE, LARGE))
    busy_checked_kb = busy(target(CHECKED, loop, folder, certificate), core, Case(CHECKED, LARGE, "lz4"))
    large_mb, large_cpu_us = large(folder, certificate, max(seconds, 2.0))
    return Memory(
        process_mb, with_workers_mb, idle_kb, idle_tls_kb, busy_kb, busy_checked_kb, large_mb, large_cpu_us,
        idle_cpu_us, max(0.0, connections_cpu_us - idle_cpu_us) / IDLE,
    )  # fmt: skip


def process(one: Target, core: int | None, seconds: float) -> tuple[float, float]:
    """Megabytes of one that has served a client, and its CPU in a second without any."""
    with started(one, core) as running:
        one.check_addresses()
        wait(one, SETTLE_S)
        return running.rss_bytes() / 1e6, cpu_us(one, running, seconds)


def idle(one: Target, core: int | None, count: int, seconds: float) -> tuple[float, float]:
    """Kilobytes of an idle connection, and the CPU of all in a second."""
    with started(one, core) as running, contextlib.ExitStack() as stack:
        one.check_addresses()
        wait(one, SETTLE_S)
        before = running.rss_bytes()
        for _ in range(count):
            sock = stack.enter_context(one.driver.dial(one.address))
            one.driver.ask(sock, frames.api_versions_request())
        wait(one, SETTLE_S)
        return (running.rss_bytes() - before) / count / 1e3, cpu_us(one, running, seconds)


def busy(one: Target, core: int | None, case: Case) -> float:
    """Kilobytes of a connection with a request in flight."""
    with started(one, core) as running:
        one.check_addresses()
        wait(one, SETTLE_S)
        before = running.rss_bytes()
        result = one.run(replace(case.workload(), connections=BUSY), 0.2, 0.5)
        return (result.peak_rss_bytes - before) / BUSY / 1e3


def large(folder: Path, certificate: Path, seconds: float) -> tuple[float, float]:
    """Megabytes more while large messages are split, and the CPU of a MB of them."""
    run = clients.Paced(NONE, LARGE_PER_S, LARGE_BYTES, 1)
    with (
        mock_cluster() as brokers,
        clients.sidecar_with(NONE, brokers, folder, certificate, LARGE_MESSAGES) as sidecar,
    ):
        pid = sidecar.program.popen.pid
        before = memory_of(pid, "VmRSS:")
        with clients.clients(run, sidecar):
            time.sleep(clients.WARM_UP_S)
            counts, before_ns = clients.Counts.of(sidecar), cpu_ns(pid)
            time.sleep(seconds)
            used_us, passed = (cpu_ns(pid) - before_ns) / 1e3, clients.Counts.of(sidecar) - counts
        return (memory_of(pid, "VmHWM:") - before) / 1e6, used_us / (passed.produced_bytes / 1e6)


def memory_of(pid: int, name: str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))


@contextlib.contextmanager
def started(one: Target, core: int | None) -> Iterator[Process]:
    try:
        one.start(core)
        assert one.process is not None
        yield one.process
    finally:
        one.stop()


def wait(one: Target, seconds: float) -> None:
    """The stub broker serves meanwhile."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        one.driver.loop.poll(0.01)


def cpu_us(one: Target, running: Process, seconds: float) -> float:
    """In a second."""
    if not seconds:
        return 0.0
    before, began = running.cpu_ns(), time.monotonic()
    wait(one, seconds)
    return (running.cpu_ns() - before) / 1e3 / (time.monotonic() - began)
