"""The cost of rate limits: of one for another topic, of one that is not reached, of one that counts every request.

usage: rate_costs.py [--only TEXT] [--reps N] [--seconds S] [--before PROGRAM] [--markdown FILE]

How it measures and how to read it: bench/README.md
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median

from rig import frames, report
from rig.driver import Workload
from rig.peers import Peer, kafka_sidecar, kafka_sidecar_with, sidecar_program
from rig.target import Target
from side_by_side import Bench

NONE, OTHER, OWN, REQUESTS = "no limit", "of another topic", "of its topic", "of requests"
TARGETS = {OTHER: 1.0, OWN: 1.05, REQUESTS: 1.05}
TOLERANCE = 0.02  # of a ratio that is to be 1.00
TOPIC = frames.TOPIC.decode()
BYTES = "per: [topic, client_id], produce_bytes: 100GiB, consume_bytes: 100GiB, burst: 10s"
CONFIGS = {
    OTHER: f"rate_limits:\n  - {{name: other, topics: [another], {BYTES}}}\n",
    OWN: f"rate_limits:\n  - {{name: own, topics: [{TOPIC}], {BYTES}}}\n",
    REQUESTS: "rate_limits:\n  - {name: requests, per: [client_id], requests: 100000000, burst: 10s}\n",
}
WORKLOADS = (
    Workload("Produce 1 KB, 8 connections, 1 in flight", 8, 1, produce_bytes=1 << 10),
    Workload("Produce 1 KB, 8 connections, 5 in flight", 8, 5, produce_bytes=1 << 10),
    Workload("Produce 64 KB, 8 connections, 2 in flight", 8, 2, produce_bytes=64 << 10),
    Workload("Fetch 1 KB, 8 connections, 1 in flight", 8, 1, fetch_bytes=1 << 10),
    Workload("Fetch 64 KB, 4 connections, 1 in flight", 4, 1, fetch_bytes=64 << 10),
)


def peers(folder: Path) -> list[Peer]:
    program = sidecar_program()
    limited = (
        Peer(name, kafka_sidecar_with(config), program, "make install", reads_kafka=True)
        for name, config in CONFIGS.items()
    )
    return [Peer(NONE, kafka_sidecar, program, "make install", reads_kafka=True), *limited]


def workloads() -> list[Workload]:
    return list(WORKLOADS)


def row(load: Workload, targets: Sequence[Target], runs: report.Runs) -> report.Row:
    cells = {}
    for target in targets:
        results = runs[load.title, target.name]
        cells[target.name] = f"{median(run.cpu_us_per_request for run in results):.3g}"
        if (most := TARGETS.get(target.name)) is not None:
            ratio = report.cpu_ratio(results, runs[load.title, NONE])
            cells[target.name] += f" ({ratio:.2f}x) {'met' if ratio <= most + TOLERANCE else 'MISSED'}"
    return report.Row(f"{load.title}: CPU us/request", cells, f"{OTHER} 1.00x, the others <= 1.05x")


def rows(loads: Sequence[Workload], targets: Sequence[Target], runs: report.Runs) -> list[report.Row]:
    return [row(load, targets, runs) for load in loads]


def check(target: Target) -> None:
    """Every request gets through: the driver raises BenchError otherwise."""


if __name__ == "__main__":
    Bench("rate limits", peers, workloads, rows, check).main(__doc__)
