"""The cost of reading every record of a batch, and of adding a header to every record, next to decompression, checksum
and compression, which cannot be avoided.

usage: records.py [--reps N] [--only TEXT]

How to read it: bench/README.md
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from crc32c import crc32c
from json_values import value
from rig.report import Row, table

from kafka_sidecar.codec import compiled
from kafka_sidecar.codec.records import (
    Codec,
    Header,
    NewRecord,
    Record,
    Records,
    batches,
    build_batch,
    reseal,
    with_header,
)
from kafka_sidecar.codec.records.compression import compress, decompress
from kafka_sidecar.proxy.runtime.program import configure_allocator

LIMIT = 100 << 20
ATTRIBUTES_AT, RECORDS_AT = 21, 61  # where the bytes covered by the checksum begin, and the records
ROUND_S = 0.02  # CPU time for which a step is repeated in each repetition
POLICY_TARGET_NS = 100.0
ALONE, WHOLE, WALK, POLICY = "decompress + CRC", "and require a header", "walk alone", "walk and a Python policy"
PACKED, EDITED = "decompress + CRC + compress", "and add a header"
STEPS = [ALONE, WHOLE, WALK, POLICY, PACKED, EDITED]


@dataclass(frozen=True, slots=True)
class Workload:
    """Batches of about ``batch_bytes`` before compression; ``target`` limits the whole against decompress + CRC,
    ``edit_target`` a new header in each record against these and compression."""

    codec: Codec
    record_bytes: int
    batch_bytes: int
    target: float | None = None
    edit_target: float | None = None

    @property
    def title(self) -> str:
        size = "1 KB" if self.record_bytes >= 1000 else f"{self.record_bytes} B"
        batch = "1 MB" if self.batch_bytes >= 1 << 20 else f"{self.batch_bytes >> 10} KB"
        return f"{size}, {self.codec.name.lower()}, batches of {batch}"


TARGETS = {(Codec.LZ4, 1000): 1.15, (Codec.ZSTD, 1000): 1.1, (Codec.LZ4, 100): 1.5, (Codec.ZSTD, 100): 1.25}
EDIT_TARGETS = {(Codec.LZ4, 1000): 1.25}
WORKLOADS = [
    Workload(
        codec, record_bytes, batch_bytes, TARGETS.get((codec, record_bytes)), EDIT_TARGETS.get((codec, record_bytes))
    )
    for batch_bytes in (1 << 20, 16 << 10)
    for record_bytes in (1000, 100)
    for codec in (Codec.LZ4, Codec.ZSTD, Codec.NONE, Codec.GZIP, Codec.SNAPPY)
]

Step = Callable[[], object]
Runs = dict[str, list[float]]  # step -> CPU ns per record, one per repetition


class NoPolicy:
    """The smallest possible policy in Python."""

    def validate(self, topic: str, record: Record) -> None:
        pass


def records_of(workload: Workload) -> list[NewRecord]:
    chance = random.Random(1)
    count = workload.batch_bytes // workload.record_bytes
    return [one_record(workload.record_bytes, number, chance) for number in range(count)]


def one_record(size: int, number: int, chance: random.Random) -> NewRecord:
    """A trace id that no other record has, a few headers that all have, and JSON."""
    headers = [Header("trace", b"%016x" % chance.getrandbits(64))]
    if size >= 1000:
        headers += [Header("content-type", b"application/json"), Header("schema-version", b"17")]
    rest = sum(len(header.key_bytes) + len(header.value or b"") + 2 for header in headers) + 17
    return NewRecord(value(size - rest, chance), b"key-%06d" % number, headers, timestamp_delta=number)


def steps(data: bytes) -> dict[str, Step]:
    """The measured functions, by name."""
    (batch,) = batches(data)
    count, codec, payload = batch.header.count, batch.header.codec, batch.records(LIMIT).payload
    validate = NoPolicy().validate

    def alone() -> None:
        view = memoryview(data)
        crc32c(view[ATTRIBUTES_AT:])
        decompress(codec, view[RECORDS_AT:], LIMIT)

    def whole() -> None:
        (one,) = batches(data)
        assert one.crc_is_right()
        assert one.records(LIMIT).missing_header(b"trace") == []

    def policy() -> None:
        for record in Records(payload, count):
            validate("topic", record)

    def packed() -> None:
        alone()
        compress(codec, payload)

    def edited() -> None:
        (one,) = batches(data)
        assert one.crc_is_right()
        records = one.records(LIMIT)
        reseal(one, with_header(records, b"origin", b"one of several clusters"))

    each = (alone, whole, lambda: Records(payload, count), policy, packed, edited)
    return dict(zip(STEPS, each, strict=True))


def measure(data: bytes, reps: int, chance: random.Random) -> Runs:
    """All steps, in a random order in each repetition, so that a disturbance of the machine affects all alike."""
    (batch,) = batches(data)
    count = batch.header.count
    found = steps(data)
    times = {name: max(1, int(ROUND_S * 1e9 / cpu_ns(step, 1))) for name, step in found.items()}
    runs: Runs = {name: [] for name in found}
    for _ in range(reps):
        for name in chance.sample(list(found), len(found)):
            runs[name].append(cpu_ns(found[name], times[name]) / count)
    return runs


def cpu_ns(step: Step, times: int) -> float:
    began = time.process_time_ns()
    for _ in range(times):
        step()
    return max(1.0, (time.process_time_ns() - began) / times)


def row(workload: Workload, runs: Runs) -> Row:
    """Nanoseconds per record; a ratio and a difference are taken within a repetition."""
    looking, editing = (
        median(more / least for more, least in zip(runs[one], runs[base], strict=True))
        for one, base in ((WHOLE, ALONE), (EDITED, PACKED))
    )
    added = median(policy - walk for policy, walk in zip(runs[POLICY], runs[WALK], strict=True))
    cells = {name: f"{median(values):.0f}" for name, values in runs.items()}
    cells[WHOLE] += f" ({looking:.2f}x){verdict(looking, workload.target)}"
    cells[EDITED] += f" ({editing:.2f}x){verdict(editing, workload.edit_target)}"
    cells[POLICY] += f" ({added:+.0f}){verdict(added, POLICY_TARGET_NS)}"
    targets = [f"<= {workload.target}x"] if workload.target else []
    targets.append(f"policy <= +{POLICY_TARGET_NS:.0f} ns")
    targets += [f"header <= {workload.edit_target}x"] if workload.edit_target else []
    return Row(workload.title, cells, ", ".join(targets))


def verdict(figure: float, limit: float | None) -> str:
    return "" if limit is None else " met" if figure <= limit else " MISSED"


def chosen(only: str) -> Sequence[Workload]:
    return [workload for workload in WORKLOADS if only in workload.title]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--reps", type=int, default=9, help="repetitions; default: %(default)s")
    parser.add_argument("--only", default="", metavar="TEXT", help="only workloads with this in their name")
    options = parser.parse_args()
    configure_allocator()  # as in the sidecar, or page faults would dominate
    chance = random.Random(1)
    rows = []
    for workload in chosen(options.only):
        data = build_batch(records_of(workload), codec=workload.codec)
        rows.append(row(workload, measure(data, options.reps, chance)))
    print(f"Record walk: {compiled.in_use()}. CPU ns per record, medians of {options.reps} repetitions.\n")
    print(table(rows, STEPS))


if __name__ == "__main__":
    main()
