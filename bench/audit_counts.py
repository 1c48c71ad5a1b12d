"""The cost of auditing: what is produced and fetched is counted, and nothing else is done to it.

usage: audit_counts.py [--only TEXT] [--reps N] [--seconds S] [--before PROGRAM] [--markdown FILE]

How it measures and how to read it: docs/reference/benchmarks.md
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from json_values import value
from relay import describe, installed, run_all, start_all
from rig import report, versions
from rig.connection import Loop
from rig.cores import on_two_cores
from rig.driver import BenchError, Workload
from rig.peers import Peer, kafka_sidecar, kafka_sidecar_with, sidecar_program
from rig.target import Target

from kafka_sidecar.codec.records import Codec, NewRecord, build_batch

NONE, AUDITED = "no auditing", "audited"
# No interval ends while the bench runs: the stub broker stores no events.
SETTINGS = "audit: {topic: audit-events, auditor_reporting_interval_ms: 86400000}\n"
TARGET = 1.05
BATCH_RECORDS, PARTITIONS = 15, 3  # of 1 KB: Kafka's default batch.size


def batch(records: int, codec: Codec, chance: random.Random, offset: int = 0) -> bytes:
    values = [NewRecord(value(1 << 10, chance)) for _ in range(records)]
    return build_batch(values, codec=codec, base_offset=offset, base_timestamp=int(time.time() * 1000))


def workloads() -> list[Workload]:
    chance = random.Random(1)
    plain = tuple(batch(BATCH_RECORDS, Codec.NONE, chance) for _ in range(PARTITIONS))
    packed = tuple(batch(28, Codec.LZ4, chance) for _ in range(PARTITIONS))
    long = b"".join(batch(BATCH_RECORDS, Codec.NONE, chance, at * BATCH_RECORDS) for at in range(64))
    short = long[: len(long) // 16]
    return [
        Workload("Produce, 45 a request", 1, 1, batches=plain, records=45),
        Workload("Produce, 45 a request, 5 in flight", 1, 5, batches=plain, records=45),
        Workload("Produce, lz4, 84 a request, 5 in flight", 1, 5, batches=packed, records=84),
        Workload("Fetch, 60 a response", 4, 1, fetch_records=short, records=60),
        Workload("Fetch, 960 a response", 4, 1, fetch_records=long, records=960),
    ]


def row(load: Workload, targets: Sequence[Target], runs: report.Runs) -> report.Row:
    cells, plain = {}, runs[load.title, NONE]
    for target in targets:
        results = runs[load.title, target.name]
        cells[target.name] = f"{median(run.cpu_us_per_request for run in results):.3g}"
        if target.name == AUDITED:
            ratio = report.cpu_ratio(results, plain)
            cells[target.name] += f" ({ratio:.2f}x) {'met' if ratio <= TARGET else 'MISSED'}"
    return report.Row(f"{load.title}: CPU us/request", cells, f"<= {TARGET}x")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", metavar="TEXT", help="only workloads with this in their name")
    parser.add_argument("--reps", type=int, default=9, help="repetitions; default: %(default)s")
    parser.add_argument("--seconds", type=float, default=0.6, help="length of one run; default: %(default)s")
    parser.add_argument("--seed", type=int, default=1, help="of the order of runs")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table")
    versions.add_arguments(parser)
    return parser.parse_args()


def compare(options: argparse.Namespace, folder: Path, core: int | None) -> None:
    chance, loop = random.Random(options.seed), Loop()
    loads = [load for load in workloads() if options.only in load.title]
    peers = [
        Peer(NONE, kafka_sidecar, sidecar_program(), "make install", reads_kafka=True),
        Peer(AUDITED, kafka_sidecar_with(SETTINGS), sidecar_program(), "make install", reads_kafka=True),
    ]
    targets = [Target.through(peer, loop, folder) for peer in installed(versions.with_twins(peers, options))]
    try:
        start_all(targets, 1, core, chance)
        for target in targets:
            target.check_addresses()
        runs = run_all(loads, targets, options, chance)
    except BenchError as error:
        sys.exit(str(error))
    finally:
        for target in targets:
            target.stop()
    shown = versions.without_twins(targets)
    text = report.table([row(load, shown, runs) for load in loads], [target.name for target in shown])
    about = describe(options, core is not None, runs)
    report.publish(options, about, text, versions.described(options), versions.comparison(loads, targets, runs))


def main() -> None:
    options = arguments()
    on_two_cores("audit", lambda folder, core: compare(options, folder, core))


if __name__ == "__main__":
    main()
