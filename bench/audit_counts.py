"""The cost of auditing: what is produced and fetched is counted, and nothing else is done to it.

usage: audit_counts.py [--only TEXT] [--reps N] [--seconds S] [--before PROGRAM] [--markdown FILE]

How it measures and how to read it: bench/README.md
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from statistics import median

from json_values import value
from rig import report
from rig.driver import Workload
from rig.peers import Peer, kafka_sidecar, kafka_sidecar_with, sidecar_program
from rig.target import Target
from side_by_side import Bench, each

from kafka_sidecar.codec.records import Codec, NewRecord, build_batch

NONE, AUDITED = "no auditing", "audited"
# No interval ends while the bench runs: the stub broker stores no events.
SETTINGS = "audit: {topic: audit-events, auditor_reporting_interval_ms: 86400000}\n"
TARGET = 1.10
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


def peers() -> list[Peer]:
    return [
        Peer(NONE, kafka_sidecar, sidecar_program(), "make install", reads_kafka=True),
        Peer(AUDITED, kafka_sidecar_with(SETTINGS), sidecar_program(), "make install", reads_kafka=True),
    ]


if __name__ == "__main__":
    Bench("audit", lambda folder: peers(), workloads, each(row)).main(__doc__)
