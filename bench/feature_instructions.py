"""What rate limits, habits and policies of consumers add to a request and its response, in instructions.

One session in one process, without sockets, with the features of the columns of rate_costs.py, habits.py and
consume.py.

usage: feature_instructions.py [--bench NAME] [--only TEXT] [--column TEXT] [--requests N] [--profile FOLDER]
       feature_instructions.py --cpu REPS [--bench NAME] [--only TEXT] [--column TEXT] [--requests N]

The first needs valgrind; other programs on the machine do not matter. The second has CPU time in place of instructions:
medians of so many repetitions, in shuffled order.
How to read it: bench/README.md
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any

import consume
import habits
import rate_costs
from audit_instructions import MAX_FRAME_BYTES, TOTAL, WARM_UP, RoundTrip, reads
from rig import frames
from rig.driver import Workload
from rig.frames import Address
from rig.peers import Peer, Setting

from kafka_sidecar.plugins.effects import Work
from kafka_sidecar.proxy.config.loading import load
from kafka_sidecar.proxy.features.compose import Features
from kafka_sidecar.proxy.nodes.rewrites import Rewrites, local_response
from kafka_sidecar.proxy.nodes.topic_names import TopicNameCache
from kafka_sidecar.proxy.relay.exchange_driver import LoopBudget
from kafka_sidecar.proxy.relay.memory_budget import MemoryBudget
from kafka_sidecar.proxy.relay.routes import Routes
from kafka_sidecar.proxy.relay.session import Session
from kafka_sidecar.proxy.runtime.performer import Performer
from kafka_sidecar.proxy.runtime.program import configure_allocator
from kafka_sidecar.proxy.runtime.threads import Threads
from kafka_sidecar.proxy.security.tls.broker_access import BrokerAccess
from kafka_sidecar.proxy.telemetry.metrics import Metrics

ANYWHERE = Address("127.0.0.1", 9092)


@dataclass(frozen=True, slots=True)
class Benched:
    """The columns of a bench, its workloads, and with which column each column is compared."""

    peers: Callable[[Path], list[Peer]]
    workloads: Callable[[], list[Workload]]
    compared: Mapping[str, str]


BENCHES = {
    "rates": Benched(
        rate_costs.peers, rate_costs.workloads, {name: other for name, (other, _) in rate_costs.COMPARED.items()}
    ),
    "habits": Benched(habits.peers, habits.workloads, {name: other for name, (other, _) in habits.TARGETS.items()}),
    "consume": Benched(
        consume.peers, consume.workloads,
        dict.fromkeys((consume.OTHER_MARK, consume.OTHER_HIDE, consume.JSON, consume.HIDE, consume.MARK), consume.NONE),
    ),
}  # fmt: skip


def settings_of(peer: Peer, folder: Path) -> Path | None:
    """The configuration file of a column."""
    command = peer.command(Setting(ANYWHERE, ANYWHERE, folder))
    return Path(command[command.index("--config") + 1]) if "--config" in command else None


def open_session(path: Path | None) -> tuple[Session, LoopBudget]:
    config = load(path, {}, {"bootstrap_servers": [str(ANYWHERE)]})
    metrics, budget = Metrics(), LoopBudget()
    cluster: Any = SimpleNamespace(topic_ids=None)
    topics = TopicNameCache(cluster)
    topics.remember([(frames.TOPIC_ID, frames.TOPIC.decode())])
    features = Features(config, metrics, topics, cluster, Performer(budget, Threads(1)), BrokerAccess())
    features.apply(config)
    rewrites = Rewrites(lambda node, host, port: (host, port), lambda *_: None)
    routes = Routes(metrics, rewrites.response, local_response, features.exchange, features.tap)
    session = Session(
        routes, time.perf_counter, MAX_FRAME_BYTES, budget, MemoryBudget(MAX_FRAME_BYTES, metrics.buffered)
    )
    return session, budget


def round_trips(load: Workload, count: int) -> list[RoundTrip]:
    """Requests in flight are read at once, and so are their responses."""
    request, response = load.request(), frames.response(_response_body(load))
    trips = []
    for number in range(count):
        ids = range(number * load.depth, (number + 1) * load.depth)
        trips.append((reads(b"".join(map(request.one, ids))), reads(b"".join(map(response.one, ids)))))
    return trips


def _response_body(load: Workload) -> bytes:
    if load.batches:
        return frames.produce_response(len(load.batches))
    return frames.fetch_response(load.fetch_bytes, load.fetch_records)


def relay(session: Session, budget: LoopBudget, trips: list[RoundTrip]) -> int:
    """How many bytes have passed. What is for a thread is done at once."""
    passed = 0
    for asked, answered in trips:
        for feed, chunks in ((session.from_client, asked), (session.from_broker, answered)):
            for chunk in chunks:
                passed += len(feed(chunk))
                budget.renew()
                while session.agenda:
                    driver: Any = session.agenda.pop(0)
                    budget.renew()
                    result = driver.need.run() if isinstance(driver.need, Work) else None
                    passed += len(session.resume(driver, result)) + sum(map(len, driver.take_left()))
    return passed


def columns_of(bench: Benched, folder: Path, only: str) -> list[Peer]:
    peers = bench.peers(folder)
    wanted = {peer.name for peer in peers if only in peer.name}
    wanted |= {bench.compared[name] for name in wanted if name in bench.compared}
    return [peer for peer in peers if peer.name in wanted]


async def relay_all(options: argparse.Namespace, folder: Path, mark: Callable[[], object]) -> None:
    """Relay each workload in each column; ``mark`` is called before and after."""
    bench = BENCHES[options.bench]
    for one in loads_of(bench, options.only):
        trips = round_trips(one, WARM_UP + options.requests // one.depth)
        for peer in columns_of(bench, folder, options.column):
            session, budget = open_session(settings_of(peer, folder))
            relay(session, budget, trips[:WARM_UP])
            gc.collect()
            gc.disable()
            mark()
            relay(session, budget, trips[WARM_UP:])
            mark()
            gc.enable()
            if session.closing or session.responses != len(trips) * one.depth:
                sys.exit(f"{one.title}, {peer.name}: {session.closing}, {session.responses} responses")


async def show_cpu(options: argparse.Namespace, folder: Path) -> None:
    """Print what a request and its response take of the CPU, in microseconds. One request after the other is measured,
    so that other programs disturb few of them."""
    bench = BENCHES[options.bench]
    peers = columns_of(bench, folder, options.column)
    table = Table("CPU us of a request and its response", bench, peers)
    for one in loads_of(bench, options.only):
        trips = round_trips(one, WARM_UP + max(options.requests // one.depth, 1))
        sessions = {peer.name: open_session(settings_of(peer, folder)) for peer in peers}
        for session, budget in sessions.values():
            relay(session, budget, trips[:WARM_UP])
        configure_allocator()
        gc.disable()
        taken: dict[str, list[float]] = {name: [] for name in sessions}
        for _ in range(options.cpu):
            for name in random.sample(list(sessions), len(sessions)):
                for trip in trips[WARM_UP:]:
                    began = time.thread_time()
                    relay(*sessions[name], [trip])
                    taken[name].append((time.thread_time() - began) * 1e6 / one.depth)
        gc.enable()
        table.add(one.title, {name: median(found) for name, found in taken.items()}, ".1f")


class Table:
    """A table in Markdown, whose rows are printed as they come."""

    def __init__(self, title: str, bench: Benched, peers: list[Peer]) -> None:
        self._compared = bench.compared
        print(f"| {title} | {' | '.join(peer.name for peer in peers)} |")
        print(f"| --- |{' ---: |' * len(peers)}")

    def add(self, title: str, found: Mapping[str, float], form: str) -> None:
        """Print a row: each column, and its ratio to that with which it is compared."""
        cells = []
        for name, value in found.items():
            compared = self._compared.get(name)
            ratio = f" ({value / found[compared]:.3f}x of {compared})" if compared else ""
            cells.append(f"{value:{form}}{ratio}")
        print(f"| {title} | {' | '.join(cells)} |")


def loads_of(bench: Benched, only: str) -> list[Workload]:
    return [one for one in bench.workloads() if only in one.title]


def counted(options: argparse.Namespace, folder: Path, rows: int) -> list[int]:
    """Instructions of each workload and column, as `audit_instructions.counted`."""
    out = folder / "callgrind.out"
    words = ["valgrind", "--tool=callgrind", "--dump-before=getppid", f"--callgrind-out-file={out}", "-q"]
    words += [sys.executable, __file__, "--relay", "--bench", options.bench, "--only", options.only]
    words += ["--column", options.column, "--requests", str(options.requests)]
    subprocess.run(words, check=True, env={**os.environ, "PYTHONHASHSEED": "0"})
    totals = [TOTAL.search((folder / f"callgrind.out.{2 * number}").read_text()) for number in range(1, rows + 1)]
    return [int(total[1]) for total in totals if total is not None]


def show(options: argparse.Namespace, folder: Path, keep: Path) -> None:
    bench = BENCHES[options.bench]
    peers, loads = columns_of(bench, folder, options.column), loads_of(bench, options.only)
    found = iter(counted(options, keep, len(peers) * len(loads)))
    table = Table("instructions of a request and its response", bench, peers)
    for one in loads:
        done = options.requests // one.depth * one.depth
        table.add(one.title, {peer.name: next(found) / done for peer in peers}, ",.0f")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--bench", choices=BENCHES, default="rates", help="whose columns; default: %(default)s")
    parser.add_argument("--only", default="", metavar="TEXT", help="only workloads with this in their name")
    parser.add_argument("--column", default="", metavar="TEXT", help="only columns with this in their name")
    parser.add_argument("--requests", type=int, default=100, help="of each workload; default: %(default)s")
    parser.add_argument("--profile", type=Path, metavar="FOLDER", help="keep callgrind's files there")
    parser.add_argument("--cpu", type=int, metavar="REPS", help="CPU time in place of instructions")
    parser.add_argument("--relay", action="store_true", help=argparse.SUPPRESS)  # what valgrind runs
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="feature-instructions-") as name:
        folder = Path(name)
        if options.relay:
            asyncio.run(relay_all(options, folder, os.getppid))
            return
        if options.cpu:
            asyncio.run(show_cpu(options, folder))
            return
        if shutil.which("valgrind") is None:
            sys.exit("valgrind is not installed")
        show(options, folder, options.profile or folder)


if __name__ == "__main__":
    main()
