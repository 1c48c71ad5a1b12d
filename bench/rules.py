"""The cost of rules of who may do what, where everything is allowed; and of guards of topics, which see no records.

usage: rules.py [--only TEXT] [--reps N] [--seconds S] [--before PROGRAM] [--markdown FILE]

How it measures and how to read it: bench/README.md
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rig import frames, report
from rig.driver import Workload
from rig.peers import Peer, kafka_sidecar, kafka_sidecar_with, sidecar_program
from rig.target import Target
from side_by_side import Bench, each

NONE, RULES, GUARDS = "no rules", "rules", "guards of topics"
TARGETS = {RULES: 1.1, GUARDS: 1.0}  # of CPU time
TOPIC = frames.TOPIC.decode()
# Of a hundred teams, each with its topics; the client of the bench is of one of them.
ALLOWING = f"""
authorization:
  rules:
    - {{principals: ["User:ANONYMOUS"], topics: [{TOPIC}], groups: ["*"], cluster: true}}
""" + "".join(f'    - {{principals: ["User:team-{at}"], topics: ["team-{at}-*"]}}\n' for at in range(99))
GUARDING = "topic_guards: [{naming: '[a-z]+', partitions: {min: 3, max: 50}, other_configs: deny, delete: deny}]\n"
WORKLOADS = (
    Workload("Produce 1 KB, 8 connections, 1 in flight", 8, 1, produce_bytes=1 << 10),
    Workload("Produce 1 KB, 8 connections, 5 in flight", 8, 5, produce_bytes=1 << 10),
    Workload("Fetch 1 KB, 8 connections, 1 in flight", 8, 1, fetch_bytes=1 << 10),
    Workload("Fetch 64 KB, 4 connections, 1 in flight", 4, 1, fetch_bytes=64 << 10),
)


def peers(folder: Path) -> list[Peer]:
    program = sidecar_program()
    return [
        Peer(NONE, kafka_sidecar, program, "make install", reads_kafka=True),
        Peer(RULES, kafka_sidecar_with(ALLOWING), program, "make install", reads_kafka=True),
        Peer(GUARDS, kafka_sidecar_with(GUARDING), program, "make install", reads_kafka=True),
    ]


def workloads() -> list[Workload]:
    return list(WORKLOADS)


def row(load: Workload, targets: Sequence[Target], runs: report.Runs) -> report.Row:
    limits = {name: (NONE, most) for name, most in TARGETS.items()}
    cells = report.compared_cells(load, targets, runs, limits)
    targets_of_row = ", ".join(f"{name} <= {most}x" for name, most in TARGETS.items())
    return report.Row(f"{load.title}: CPU us/request", cells, targets_of_row)


if __name__ == "__main__":
    Bench("rules", peers, workloads, each(row)).main(__doc__)
