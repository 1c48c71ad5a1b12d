"""What a second worker is worth on two cores: records a second, and CPU per record.

usage: workers.py [--only TEXT] [--connections N] [--reps N] [--seconds S] [--json FILE] [--markdown FILE]

How it measures and how to read it: bench/README.md
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median

from json_values import value
from relay import describe, run_all, start_all
from rig import frames, report
from rig.connection import Loop
from rig.driver import BenchError, Driver, Result, Workload
from rig.frames import Address
from rig.peers import Peer, free_ports, kafka_sidecar_with, sidecar_program
from rig.target import Target

from kafka_sidecar.codec.records import NewRecord, build_batch

ONE, TWO = "1 worker", "2 workers"
KB = 1 << 10
NODE_PORTS = 4  # two ranges and the admin port fit into a peer's ports
IDLE_S = 0.01
MAX_CPU_RATIO = 1.05
RECORDS = 45  # in a batch of a producer that lingers
CHECKED = f"topics:\n  - {{name: {frames.TOPIC.decode()}, policy: json}}\n"


class SharedDriver(Driver):
    """A load that sleeps while it waits, for it shares the cores; each connection bootstraps by itself."""

    def __init__(self, loop: Loop) -> None:
        super().__init__(loop)
        self._poll = lambda: loop.poll(IDLE_S)
        self.ports: list[int] = []  # of the last run's connections

    def nodes(self, bootstrap: Address, connections: int) -> list[Address]:
        found = [self.learn_node(bootstrap) for _ in range(connections)]
        self.ports = [node.port for node in found]
        return found


@dataclass(frozen=True, slots=True)
class Load:
    """A workload, and the settings of the sidecars that serve it."""

    workload: Workload
    settings: str = ""
    targets: list[Target] = field(default_factory=list)


def loads(connections: int) -> list[Load]:
    chance = random.Random(1)
    batch = build_batch([NewRecord(value(KB, chance)) for _ in range(RECORDS)])

    def workload(title: str, **what: object) -> Workload:
        return Workload(f"{title}, {connections} connections", connections, 1, **what)  # type: ignore[arg-type]

    return [
        Load(workload("Produce 1 KB, 1 a request", produce_bytes=KB)),
        Load(workload(f"Produce 1 KB, {RECORDS} a request", batches=(batch,), records=RECORDS)),
        Load(workload(f"Consume 1 KB, {RECORDS} a response", fetch_records=batch, records=RECORDS)),
        Load(workload(f"Produce 1 KB, {RECORDS} a request, JSON policy", batches=(batch,), records=RECORDS), CHECKED),
    ]


def with_workers(workers: int, settings: str) -> Peer:
    text = f"workers: {workers}\nnodes: {{ports: {NODE_PORTS}}}\n{settings}"
    name = TWO if workers > 1 else ONE
    return Peer(name, kafka_sidecar_with(text), sidecar_program(), "make install", reads_kafka=True)


def ratio(results: Sequence[Result], yardstick: Sequence[Result], of: Callable[[Result], float]) -> float:
    """Median over the repetitions of the ratio within one."""
    return median(of(ours) / of(theirs) for ours, theirs in zip(results, yardstick, strict=True))


def rows(load: Load, runs: report.Runs, shares: Sequence[float]) -> list[report.Row]:
    title, records = load.workload.title, load.workload.records
    one, two = (runs[title, name] for name in (ONE, TWO))
    measures: list[tuple[str, Callable[[Result], float], str, float | None]] = [
        ("records/s", lambda run: run.requests * records / run.wall_s, ".0f", None),
        ("CPU us/record", lambda run: run.cpu_us_per_request / records, ".3g", MAX_CPU_RATIO),
        ("cores, of the workers", lambda run: run.cpu_s / run.wall_s, ".2f", None),
        ("cores, of the load", lambda run: run.load_s / run.wall_s, ".2f", None),
    ]
    found = []
    for name, of, form, limit in measures:
        times = ratio(two, one, of)
        cells = {ONE: f"{median(map(of, one)):{form}}", TWO: f"{median(map(of, two)):{form}} ({times:.2f}x)"}
        verdict = "" if limit is None else " met" if times <= limit else " MISSED"
        cells[TWO] += verdict
        found.append(report.Row(f"{title}: {name}", cells, f"<= {limit}x {ONE}" if limit else ""))
    largest = f"{min(shares):.0%} to {max(shares):.0%}"
    found.append(report.Row(f"{title}: connections of the first worker", {ONE: "100%", TWO: largest}))
    return found


def measure(load: Load, loop: Loop, folder: Path, options: argparse.Namespace) -> tuple[report.Runs, list[report.Row]]:
    chance, shares = random.Random(options.seed), []
    peers = [with_workers(workers, load.settings) for workers in (1, 2)]
    targets = [Target(peer.name, SharedDriver(loop), free_ports(), peer, folder) for peer in peers]
    try:
        start_all(targets, 1, None, chance)
        runs: report.Runs = {}
        for _ in range(options.reps):
            one_rep = argparse.Namespace(**{**vars(options), "reps": 1})
            for key, results in run_all([load.workload], targets, one_rep, chance).items():
                runs.setdefault(key, []).extend(results)
            shares.append(share_of_first(targets[1]))
    finally:
        for target in targets:
            target.stop()
    return runs, rows(load, runs, shares)


def share_of_first(target: Target) -> float:
    assert isinstance(target.driver, SharedDriver)
    ports = target.driver.ports
    return sum(port < target.address.port + 1 + NODE_PORTS for port in ports) / len(ports)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", metavar="TEXT", help="only workloads with this in their name")
    parser.add_argument("--connections", type=int, default=200, help="default: %(default)s")
    parser.add_argument("--reps", type=int, default=7, help="repetitions; default: %(default)s")
    parser.add_argument("--seconds", type=float, default=1.5, help="length of one run; default: %(default)s")
    parser.add_argument("--seed", type=int, default=1, help="of the order of runs")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every run")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table")
    return parser.parse_args()


def compare(options: argparse.Namespace, folder: Path) -> None:
    loop = Loop()
    runs: report.Runs = {}
    found: list[report.Row] = []
    for load in loads(options.connections):
        if options.only in load.workload.title:
            of_load, its_rows = measure(load, loop, folder, options)
            runs |= of_load
            found += its_rows
    about = describe(options, True, runs).replace(
        "proxy on one core, load on another", "load and workers share the cores"
    )
    report.publish(options, about, report.table(found, [ONE, TWO]))
    if options.json:
        kept = [
            {"workload": title, "peer": name, **asdict(one)} for (title, name), all_of in runs.items() for one in all_of
        ]
        options.json.write_text(json.dumps({"about": about, "runs": kept}, indent=1))


def main() -> None:
    if len(os.sched_getaffinity(0)) < 2:
        sys.exit("two workers need two cores")
    with tempfile.TemporaryDirectory(prefix="workers-bench-") as folder:
        try:
            compare(arguments(), Path(folder))
        except BenchError as error:
            sys.exit(str(error))


if __name__ == "__main__":
    main()
