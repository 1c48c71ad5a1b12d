"""The cost of habits that producers are required to have, and have: on their own topic, and on others.

usage: habits.py [--only TEXT] [--reps N] [--seconds S] [--before PROGRAM] [--markdown FILE]

How it measures and how to read it: bench/README.md
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median

from intercept import produce
from rig import frames, report
from rig.driver import Workload
from rig.peers import Peer, kafka_sidecar, kafka_sidecar_with, sidecar_program
from rig.target import Target
from side_by_side import Bench, each

from kafka_sidecar.codec.records import Codec

NONE, OTHER_TOPIC, HEAD = "relayed", "habits, another topic", "habits, before the batches"
LIMITS, OWN = "limits", "habits"
TOPIC = frames.TOPIC.decode()
# Ratios: to which column, and how much.
TARGETS = {OTHER_TOPIC: (NONE, 1.02), HEAD: (NONE, 1.02), OWN: (LIMITS, 1.05)}
# What an exchange looks into: the policy reads headers of batches too.
FEW_RECORDS = f"""
policies:
  few-records: {{type: limits, max_records: 100000}}
topics:
  - {{name: {TOPIC}, policy: few-records}}
"""
OF_BATCHES = "compression: [none, lz4, zstd], max_batch_bytes: 10MiB, max_records: 100000, min_mean_records: 1"
OF_HEADS = 'acks: 1, client_id: ".+", software: {apache-kafka-java: ">=2.0"}'


def entry(topics: str, habits: str) -> str:
    return f'producers:\n  - {{topics: ["{topics}"], {habits}}}\n'


def peers(folder: Path) -> list[Peer]:
    columns = {
        OTHER_TOPIC: entry("other-*", f"{OF_HEADS}, {OF_BATCHES}"),
        HEAD: entry(TOPIC, f"{OF_HEADS}, report: false"),
        LIMITS: FEW_RECORDS,
        OWN: entry(TOPIC, f"{OF_HEADS}, {OF_BATCHES}"),
    }
    program = sidecar_program()
    return [
        Peer(NONE, kafka_sidecar, program, "make install", reads_kafka=True),
        *(Peer(name, kafka_sidecar_with(text), program, "make install", True) for name, text in columns.items()),
    ]


def workloads() -> list[Workload]:
    return [
        produce("Produce 1 KB, lz4, 84 a request", 84, 1 << 10, Codec.LZ4),
        produce("Produce 100 B, lz4, 300 a request", 300, 100, Codec.LZ4),
        produce("Produce 1 KB, 1 a request", 1, 1 << 10, Codec.NONE, partitions=1, connections=8),
    ]


def row(load: Workload, targets: Sequence[Target], runs: report.Runs) -> report.Row:
    cells = {}
    for target in targets:
        results = runs[load.title, target.name]
        cells[target.name] = f"{median(run.cpu_us_per_request for run in results):.3g}"
        compared, most = TARGETS.get(target.column, (NONE, 0.0))
        if most:
            ratio = report.cpu_ratio(results, runs[load.title, compared])
            cells[target.name] += f" ({ratio:.2f}x of {compared}) {'met' if ratio <= most else 'MISSED'}"
    wanted = ", ".join(f"{name} <= {most}x of {compared}" for name, (compared, most) in TARGETS.items())
    return report.Row(f"{load.title}: CPU us/request", cells, wanted)


if __name__ == "__main__":
    Bench("habits", peers, workloads, each(row)).main(__doc__)
