"""The cost of policies for consumers: on topics that do not ask for them, and on topics that do.

usage: consume.py [--only TEXT] [--reps N] [--seconds S] [--before PROGRAM] [--markdown FILE]

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

from kafka_sidecar.codec.records import Codec, NewRecord, build_batch

NONE, OTHER_MARK, OTHER_HIDE = "no policies", "marks on another topic", "hides on another topic"
HIDE, MARK, JSON = "json, hide", "json, mark", "json, produced"
TOPIC = frames.TOPIC.decode()
OTHER_TARGET = 1.05  # the rest above 1 is noise
OWN_TARGET = 1.05  # a record that is fetched and checked, compared with one that is produced and checked
RECORDS, SIZE = 84, 1 << 10


def topic(name: str, action: str) -> str:
    return f"topics:\n  - {{name: {name}, policy: json, consume: {action}}}\n"


def peers(folder: Path) -> list[Peer]:
    program = sidecar_program()
    settings = {
        OTHER_MARK: topic("other-*", "mark"), OTHER_HIDE: topic("other-*", "hide"), JSON: topic(TOPIC, "off"),
        HIDE: topic(TOPIC, "hide"), MARK: topic(TOPIC, "mark"),
    }  # fmt: skip
    return [
        Peer(NONE, kafka_sidecar, program, "make install", reads_kafka=True),
        *(Peer(name, kafka_sidecar_with(text), program, "make install", True) for name, text in settings.items()),
    ]


def records(codec: Codec) -> bytes:
    chance = random.Random(40)
    return build_batch([NewRecord(value(SIZE, chance)) for _ in range(RECORDS)], codec=codec)


def workloads() -> list[Workload]:
    found = []
    for name, codec in (("uncompressed", Codec.NONE), ("lz4", Codec.LZ4)):
        data = records(codec)
        found += [
            Workload(f"Fetch {RECORDS} records of 1 KB, {name}", 1, 1, fetch_records=data, records=RECORDS),
            # One at a time as well: several are read at once otherwise, which costs less.
            Workload(f"Produce {RECORDS} records of 1 KB, {name}", 1, 1, batches=(data,), records=RECORDS),
            Workload(f"Produce {RECORDS} records of 1 KB, {name}, 5 in flight", 1, 5, batches=(data,), records=RECORDS),
        ]
    return found


def row(load: Workload, targets: Sequence[Target], runs: report.Runs) -> report.Row:
    cells = {}
    plain = runs[load.title, NONE]
    for target in targets:
        results = runs[load.title, target.name]
        ratio = report.cpu_ratio(results, plain)
        cells[target.name] = f"{median(run.cpu_us_per_request for run in results) / RECORDS:.3g}"
        if target.name != NONE:
            cells[target.name] += f" ({ratio:.2f}x)"
        if target.name in (OTHER_MARK, OTHER_HIDE):
            cells[target.name] += " met" if ratio <= OTHER_TARGET else " MISSED"
        if target.name in (HIDE, MARK) and load.title.startswith("Fetch"):
            produced = runs[load.title.replace("Fetch", "Produce"), JSON]
            ratio = report.cpu_ratio(results, produced)
            cells[target.name] += f", {ratio:.2f}x of {JSON}" + (" met" if ratio <= OWN_TARGET else " MISSED")
    return report.Row(f"{load.title}: CPU us/record", cells, f"another topic <= {OTHER_TARGET}x")


def check(target: Target) -> None:
    """A record that is not JSON is not delivered as it is in the columns that hide or mark. Raises BenchError."""
    data = build_batch([NewRecord(b"not JSON")])
    target.driver.broker.prepare(0, 1, data)
    with socket.create_connection(target.driver.learn_node(target.address)) as sock:
        answer = target.driver.ask(sock, frames.fetch_request(len(data)))
    if (data in answer) is (target.column in (HIDE, MARK)):
        raise BenchError(f"{target.name}: a record that is not JSON came {'as it is' if data in answer else 'changed'}")


if __name__ == "__main__":
    Bench("consume", peers, workloads, each(row), check).main(__doc__)
