"""The cost of dead letters where nothing is rejected: switched on for another topic, and for the records' own.

usage: dead_letters.py [--only TEXT] [--reps N] [--seconds S] [--before PROGRAM] [--markdown FILE]

How it measures and how to read it: bench/README.md
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rig import frames, report
from rig.driver import Workload
from rig.peers import Peer, kafka_sidecar_with, sidecar_program
from rig.target import Target
from side_by_side import Bench, each
from validate import CHECKING, JSON_POLICY, check_rejections, workload

from kafka_sidecar.codec.records import Codec

OTHER, OWN = "for another topic", "for its own topic"
LIMITS = {OTHER: 1.0, OWN: 1.05}
TOPIC = frames.TOPIC.decode()
# A pattern: the stub of a broker has no topics whose existence could be looked up.
FOR_OTHER = JSON_POLICY + '  - {name: "other-*", policy: json, dead_letters: "dlq.{topic}"}\n'
FOR_OWN = f'topics:\n  - {{name: "{TOPIC[:-1]}?", policy: json, dead_letters: "dlq.{{topic}}"}}\n'


def peers(folder: Path) -> list[Peer]:
    program = sidecar_program()
    configurations = {CHECKING: JSON_POLICY, OTHER: FOR_OTHER, OWN: FOR_OWN}
    return [
        Peer(name, kafka_sidecar_with(text), program, "make install", reads_kafka=True)
        for name, text in configurations.items()
    ]


def workloads() -> list[Workload]:
    return [
        workload("1 KB, uncompressed, 45 a request", 45, 1 << 10, Codec.NONE, 0),
        workload("1 KB, lz4, 84 a request", 84, 1 << 10, Codec.LZ4, 0),
        workload("100 B, lz4, 300 a request", 300, 100, Codec.LZ4, 0),
    ]


def row(load: Workload, targets: Sequence[Target], runs: report.Runs) -> report.Row:
    limits = {name: (CHECKING, limit) for name, limit in LIMITS.items()}
    cells = report.compared_cells(load, targets, runs, limits, load.records)
    targets_text = ", ".join(f"{name} <= {limit}x" for name, limit in LIMITS.items())
    return report.Row(f"{load.title}: CPU us/record", cells, targets_text)


def check(target: Target) -> None:
    """They reject what is not JSON. Raises BenchError."""
    if target.column != OWN:  # a letter would be sent to the stub of a broker, again and again
        check_rejections(target, target.column)


if __name__ == "__main__":
    Bench("dead_letters", peers, workloads, each(row), check).main(__doc__)
