"""The cost of interceptors: on topics without any, and on topics with one.

usage: intercept.py [--only TEXT] [--reps N] [--seconds S] [--before PROGRAM] [--markdown FILE]

How it measures and how to read it: bench/README.md
"""

from __future__ import annotations

import random
import socket
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from json_values import value
from rig import frames, report
from rig.driver import BenchError, Workload
from rig.peers import Peer, kafka_sidecar, kafka_sidecar_with, sidecar_program
from rig.target import Target
from side_by_side import Bench, each
from validate import JSON_POLICY, check_rejections

from kafka_sidecar.codec.records import Codec, NewRecord, build_batch

NONE, OTHER_TOPIC, LATENCY = "no interceptors", "on another topic", "latency"
ADD_HEADER, JSON_TOO = "add_header", "json and add_header"
PYTHON, ON_CONSUME = "a Python on_send", "a Python on_consume"
ADDING = (ADD_HEADER, JSON_TOO)
TOPIC = frames.TOPIC.decode()
OTHER_TARGET = 1.05  # the rest above 1 is noise
PARTITIONS = 3

PLUG_IN = """from kafka_sidecar.interceptors.contract import ConsumerInterceptor, ProducerInterceptor


class Looks(ProducerInterceptor):
    def on_send(self, record):
        return record


class Reads(ConsumerInterceptor):
    def on_consume(self, records):
        return records
"""
ADDED = "{type: add_header, topics: [%s], headers: {tenant: acme}}"
OTHERS = (
    ADDED % "other-*",
    "{type: latency, topics: [other-*]}",
    "{type: mask_fields, topics: [other-*], fields: [$.a]}",
)


def settings(*entries: str) -> str:
    return "interceptors:\n" + "".join(f"  - {entry}\n" for entry in entries)


def peers(folder: Path) -> list[Peer]:
    (folder / "looks.py").write_text(PLUG_IN)
    own = f"class_path: {folder}, topics: [{TOPIC}]"
    chains = {
        OTHER_TOPIC: settings(*OTHERS),
        LATENCY: settings(f"{{type: latency, end_to_end: false, topics: [{TOPIC}]}}"),
        ADD_HEADER: settings(ADDED % TOPIC),
        JSON_TOO: JSON_POLICY + settings(ADDED % TOPIC),
        PYTHON: settings(f"{{type: looks:Looks, {own}}}"),
        ON_CONSUME: settings(f"{{type: looks:Reads, {own}}}"),
    }
    program = sidecar_program()
    return [
        Peer(NONE, kafka_sidecar, program, "make install", reads_kafka=True),
        *(Peer(name, kafka_sidecar_with(text), program, "make install", True) for name, text in chains.items()),
    ]


def produce(
    title: str, records: int, size: int, codec: Codec, partitions: int = PARTITIONS, connections: int = 1
) -> Workload:
    """Requests like those of a Java producer, with ``records`` in all, over the partitions."""
    chance = random.Random(title)
    batches = tuple(
        build_batch([NewRecord(value(size, chance)) for _ in range(records // partitions)], codec=codec)
        for _ in range(partitions)
    )
    return Workload(title, connections, 5, batches=batches, records=records)


def workloads() -> list[Workload]:
    return [
        produce("Produce 1 KB, lz4, 84 a request", 84, 1 << 10, Codec.LZ4),
        produce("Produce 100 B, lz4, 300 a request", 300, 100, Codec.LZ4),
        produce("Produce 1 KB, 1 a request", 1, 1 << 10, Codec.NONE, partitions=1, connections=8),
        Workload("Fetch 64 KB", 4, 1, fetch_bytes=64 << 10),
        Workload("Fetch 1 MB", 4, 1, fetch_bytes=1 << 20),
    ]


def row(load: Workload, targets: Sequence[Target], runs: report.Runs) -> report.Row:
    cells = {}
    plain = runs[load.title, NONE]
    for target in targets:
        results = runs[load.title, target.name]
        ratio = report.cpu_ratio(results, plain)
        cells[target.name] = f"{median(run.cpu_us_per_request for run in results):.3g}"
        if target.name != NONE:
            cells[target.name] += f" ({ratio:.2f}x)"
        if target.name == OTHER_TOPIC:
            cells[target.name] += " met" if ratio <= OTHER_TARGET else " MISSED"
    return report.Row(f"{load.title}: CPU us/request", cells, f"{OTHER_TOPIC} <= {OTHER_TARGET}x")


def check_edits(target: Target) -> None:
    """The broker gets longer requests in the columns that add a header, and in no others. Raises BenchError."""
    driver, request = target.driver, workloads()[0].request()
    with socket.create_connection(driver.learn_node(target.address)) as sock:
        driver.ask(sock, request)
    added = driver.broker.last_bytes - request.size_bytes
    if (added > 0) is not (target.column in ADDING):
        raise BenchError(f"{target.name} added {added} bytes to a request")


def check(target: Target) -> None:
    check_rejections(target, checking=JSON_TOO)
    check_edits(target)


if __name__ == "__main__":
    Bench("intercept", peers, workloads, each(row), check).main(__doc__)
