"""The cost of one record through kafka-sidecar, with policies and without, and through haproxy.

usage: validate.py [--only TEXT] [--reps N] [--seconds S] [--before PROGRAM] [--json FILE] [--markdown FILE]

How it measures and how to read it: bench/README.md
"""

from __future__ import annotations

import random
import socket
from collections.abc import Sequence
from statistics import median

from json_values import value
from rig import frames, report
from rig.driver import BenchError, Workload
from rig.peers import PEERS, Peer, kafka_sidecar, kafka_sidecar_with, sidecar_program
from rig.target import Target
from side_by_side import Bench

from kafka_sidecar.codec.apis import ErrorCode
from kafka_sidecar.codec.records import Codec, NewRecord, build_batch

CHECKING = "kafka-sidecar, json"
JSON_POLICY = f"topics:\n  - name: {frames.TOPIC.decode()}\n    policy: json\n"
COUNTING = "kafka-sidecar, limits"  # reads only the header of a batch
LIMITS_POLICY = f"""policies:
  few-records: {{type: limits, max_records: 100000}}
topics:
  - name: {frames.TOPIC.decode()}
    policy: few-records
"""
MEMORY_TARGET_MB = 68.0
PARTITIONS = 3
CONNECTIONS, DEPTH = 1, 5  # one application's producer: max.in.flight.requests.per.connection


def workload(title: str, records: int, size: int, codec: Codec, target: float, depth: int = DEPTH) -> Workload:
    """Requests like those of a Java producer, with ``records`` in all, over three partitions."""
    chance = random.Random(title)
    batches = tuple(
        build_batch([NewRecord(value(size, chance)) for _ in range(records // PARTITIONS)], codec=codec)
        for _ in range(PARTITIONS)
    )
    return Workload(title, CONNECTIONS, depth, batches=batches, records=records, target=target)


def workloads() -> list[Workload]:
    return [
        workload("1 KB, uncompressed, 45 a request", 45, 1 << 10, Codec.NONE, 3.3),
        workload("1 KB, lz4, 84 a request", 84, 1 << 10, Codec.LZ4, 4.3),
        workload("100 B, lz4, 300 a request", 300, 100, Codec.LZ4, 2.9),
        workload("64 KB, uncompressed, 3 a request", 3, 64 << 10, Codec.NONE, 4.3),
        workload("1 KB, uncompressed, 21 a request, 1 in flight", 21, 1 << 10, Codec.NONE, 3.3, depth=1),
    ]


def peers() -> list[Peer]:
    haproxy = next(peer for peer in PEERS if peer.name == report.YARDSTICK)
    return [
        haproxy,
        Peer("kafka-sidecar", kafka_sidecar, sidecar_program(), "make install", reads_kafka=True),
        Peer(COUNTING, kafka_sidecar_with(LIMITS_POLICY), sidecar_program(), "make install", reads_kafka=True),
        Peer(CHECKING, kafka_sidecar_with(JSON_POLICY), sidecar_program(), "make install", reads_kafka=True),
    ]


def check_rejections(target: Target, checking: str = CHECKING) -> None:
    """A value that is not JSON is rejected in the column ``checking``, and in no other. Raises BenchError."""
    node = target.driver.learn_node(target.address)
    with socket.create_connection(node) as sock:
        answer = target.driver.ask(sock, frames.produce_batches([build_batch([NewRecord(b'{"a":1,}')])]))
    error, due = frames.produce_error(answer), ErrorCode.INVALID_RECORD if target.column == checking else 0
    if error != due:
        raise BenchError(f"{target.name} answered a value that is not JSON with {error}, not {due}")


def cpu_row(load: Workload, targets: Sequence[Target], runs: report.Runs) -> report.Row:
    cells, yardstick = {}, runs.get((load.title, report.YARDSTICK), [])
    for target in targets:
        results = runs[load.title, target.name]
        cells[target.name] = f"{median(run.cpu_us_per_request for run in results) / load.records:.3g}"
        if yardstick:
            ratio = report.cpu_ratio(results, yardstick)
            cells[target.name] += f" ({ratio:.2f}x)"
            if target.name == CHECKING and load.target:
                cells[target.name] += " met" if ratio <= load.target else " MISSED"
    return report.Row(f"{load.title}: CPU us/record", cells, f"<= {load.target}x {report.YARDSTICK}")


def rate_row(load: Workload, targets: Sequence[Target], runs: report.Runs) -> report.Row:
    cells = {}
    for target in targets:
        results = runs[load.title, target.name]
        rate = median(run.requests * load.records / run.wall_s for run in results)
        cells[target.name] = f"{rate:.0f} ({median(run.cpu_s / run.wall_s for run in results):.0%} busy)"
    return report.Row(f"{load.title}: records/s", cells)


def memory_row(targets: Sequence[Target], runs: report.Runs) -> report.Row:
    cells = {}
    for target in targets:
        results = (result for (_, name), each in runs.items() if name == target.name for result in each)
        peak_mb = max(result.peak_rss_bytes for result in results) / 1e6
        cells[target.name] = f"{peak_mb:.1f}"
        if target.name == CHECKING:
            cells[target.name] += " met" if peak_mb <= MEMORY_TARGET_MB else " MISSED"
    return report.Row("resident memory at most, MB", cells, f"<= {MEMORY_TARGET_MB:.0f}")


def rows(loads: Sequence[Workload], targets: Sequence[Target], runs: report.Runs) -> list[report.Row]:
    found = [row for load in loads for row in (cpu_row(load, targets, runs), rate_row(load, targets, runs))]
    return [*found, memory_row(targets, runs)]


if __name__ == "__main__":
    Bench("validate", lambda folder: peers(), workloads, rows, check_rejections).main(__doc__)
