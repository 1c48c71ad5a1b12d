"""The cost of rate limits: of one for another topic, of one that is not reached, of one that counts every request.

usage: rate_costs.py [--only TEXT] [--reps N] [--seconds S] [--before PROGRAM] [--markdown FILE]

How it measures and how to read it: bench/README.md
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

from json_values import value
from rig import frames, report
from rig.driver import Workload
from rig.peers import Peer, kafka_sidecar, kafka_sidecar_with, sidecar_program
from rig.target import Target
from side_by_side import Bench, each

from kafka_sidecar.codec.records import NewRecord, build_batch

NONE, OTHER, OWN, REQUESTS = "no limit", "of another topic", "of its topic", "of requests"
CHECKED, BOTH = "JSON checked", "JSON checked, of its topic"
# What each is compared with, and how much more it may cost; None: it is shown.
COMPARED: dict[str, tuple[str, float | None]] = {
    OTHER: (NONE, 1.0), OWN: (NONE, None), REQUESTS: (NONE, None), BOTH: (CHECKED, 1.05),
}  # fmt: skip
TOPIC = frames.TOPIC.decode()
BYTES = "per: [topic, client_id], produce_bytes: 100GiB, consume_bytes: 100GiB, burst: 10s"
OF_ITS_TOPIC = f"rate_limits:\n  - {{name: own, topics: [{TOPIC}], {BYTES}}}\n"
JSON = f"topics:\n  - {{name: {TOPIC}, policy: json}}\n"
CONFIGS = {
    OTHER: f"rate_limits:\n  - {{name: other, topics: [another], {BYTES}}}\n",
    OWN: OF_ITS_TOPIC,
    REQUESTS: "rate_limits:\n  - {name: requests, per: [client_id], requests: 100000000, burst: 10s}\n",
    CHECKED: JSON,
    BOTH: JSON + OF_ITS_TOPIC,
}


def produce(title: str, connections: int, depth: int, records: int, partitions: int = 1) -> Workload:
    """Values are JSON of 1 KB, so that they can be checked."""
    chance = random.Random(title)
    batches = tuple(
        build_batch([NewRecord(value(1 << 10, chance)) for _ in range(records // partitions)])
        for _ in range(partitions)
    )
    return Workload(title, connections, depth, batches=batches, records=records)


WORKLOADS = (
    produce("Produce 1 KB, 8 connections, 1 in flight", 8, 1, 1),
    produce("Produce 1 KB, 8 connections, 5 in flight", 8, 5, 1),
    produce("Produce 45 KB, 45 records, 1 connection, 5 in flight", 1, 5, 45, partitions=3),
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
    cells = report.compared_cells(load, targets, runs, COMPARED)
    return report.Row(f"{load.title}: CPU us/request", cells, f"{OTHER} 1.00x; {BOTH} <= 1.05x of {CHECKED}")


if __name__ == "__main__":
    Bench("rate limits", peers, workloads, each(row)).main(__doc__)
