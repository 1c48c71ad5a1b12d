"""The cost of replaying a policy over a topic, by how its records are read: CPU, records per second, memory.

usage: replay.py [--records N,N] [--readers NAME,NAME] [--json FILE]

"fetch" is what replay-policy does.
Each run is a process of its own; the broker is a real one. How to read it: bench/README.md
"""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1] / "tests"))

import pyarrow
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from harness.cluster import Cluster
from harness.versions import NEWEST
from json_values import value
from pyspark.sql import DataFrame, SparkSession
from rich.console import Console

from kafka_sidecar.codec.records import Batch, Header, NewRecord, batches, build_batch
from kafka_sidecar.pipeline.records.kafka_log import find_ranges
from kafka_sidecar.pipeline.records.slices import Slice, cut_slices
from kafka_sidecar.pipeline.records.tables import arrow_schema
from kafka_sidecar.pipeline.replay.command import Request, run
from kafka_sidecar.pipeline.replay.job import SCHEMA, Job, Row
from kafka_sidecar.pipeline.replay.validation import Replay, find_applied, open_rules
from kafka_sidecar.pipeline.session import start_session
from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.config.sections import Pipeline

TOPIC, POLICY = "bench", "json"
PARTITIONS = 4
RECORD_BYTES = 1 << 10
INVALID_EVERY = 1000
REBUILT = 500  # records of a batch that is built from single records
CORES = 2
TICKS = os.sysconf("SC_CLK_TCK")


def produce(servers: str, records: int) -> None:
    """Records of 1 KB with lz4, as a Java producer with its default settings batches them."""
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(30)
    settings = {
        "compression.type": "lz4",
        "linger.ms": 5,
        "batch.num.messages": 500,
        "queue.buffering.max.kbytes": 65536,
    }
    producer = Producer({"bootstrap.servers": servers, **settings})
    chance = random.Random(1)
    values = [value(RECORD_BYTES, chance) for _ in range(1000)]
    for number in range(records):
        content = values[number % 1000] if number % INVALID_EVERY else b"{broken"
        while True:
            try:
                producer.produce(TOPIC, content, b"key-%d" % (number % 5000), number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.05)
    assert producer.flush(120) == 0


def fetch(spark: SparkSession, job: Job, slices: Sequence[Slice], path: str) -> None:
    """What replay-policy does."""
    run(
        spark,
        job,
        slices,
        Request((TOPIC,), POLICY, path=path),
        {TOPIC: (POLICY, "", "")},
        (),
        Console(file=io.StringIO()),
    )


def confluent(spark: SparkSession, job: Job, slices: Sequence[Slice], path: str) -> None:
    """One task for each slice too, whose consumer returns single records; batches are built of them again."""
    servers = job.config.bootstrap_servers[0]

    def read(part: Slice) -> Iterator[Batch]:
        from confluent_kafka import Consumer, TopicPartition  # its classes cannot be sent to a worker

        settings = {"bootstrap.servers": servers, "group.id": "bench", "enable.auto.commit": False}
        consumer = Consumer({**settings, "queued.max.messages.kbytes": 16384, "enable.partition.eof": True})
        consumer.assign([TopicPartition(part.topic, part.partition, part.first)])
        at = part.first
        while at < part.end:
            found: list[Any] = [one for one in consumer.consume(REBUILT, 5) if not one.error()]
            if not found:
                break
            new = [NewRecord(one.value(), one.key(), [Header(k, v) for k, v in one.headers() or ()]) for one in found]
            yield rebuilt(new, at, found[0].timestamp()[1])
            at = found[-1].offset() + 1
        consumer.close()

    def work(parts: Iterator[Slice]) -> Iterator[Row]:
        replay = Replay(job, TOPIC, find_applied(open_rules(job), TOPIC))
        for part in parts:
            yield from replay.rows(part, read(part))

    rows = spark.sparkContext.parallelize(list(slices), len(slices)).mapPartitions(work).map(tuple)
    spark.createDataFrame(rows, SCHEMA).write.mode("overwrite").parquet(path)


def connector(spark: SparkSession, job: Job, slices: Sequence[Slice], path: str) -> None:
    """Spark's connector, whose records go through Arrow to Python; batches are built of them again."""

    def work(found: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        replay = Replay(job, TOPIC, find_applied(open_rules(job), TOPIC))
        for some in found:
            columns = [some.column(name).to_pylist() for name in ("value", "key", "offset")]
            partition = some.column("partition")[0].as_py()
            rows: list[Row] = []
            for at in range(0, some.num_rows, REBUILT):
                values, keys, offsets = (column[at : at + REBUILT] for column in columns)
                batch = rebuilt([NewRecord(v, k) for v, k in zip(values, keys, strict=True)], offsets[0], 0)
                rows += replay.rows(Slice(TOPIC, partition, offsets[0], offsets[-1] + 1), [batch])
            yield pyarrow.RecordBatch.from_pylist([row._asdict() for row in rows], schema=arrow_schema(SCHEMA))

    ends = {str(number): max(one.end for one in slices if one.partition == number) for number in range(PARTITIONS)}
    source: DataFrame = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", job.config.bootstrap_servers[0])
        .option("subscribe", TOPIC)
        .option("startingOffsets", "earliest")
        .option("endingOffsets", json.dumps({TOPIC: ends}))
        .option("minPartitions", str(len(slices)))
        .load()
    )
    chosen = source.select("partition", "offset", "key", "value")
    chosen.mapInArrow(work, SCHEMA).write.mode("overwrite").parquet(path)


READERS: dict[str, Callable[[SparkSession, Job, Sequence[Slice], str], None]] = {
    "fetch": fetch, "confluent": confluent, "connector": connector,
}  # fmt: skip


def rebuilt(records: list[NewRecord], offset: int, timestamp: int) -> Batch:
    (batch,) = batches(build_batch(records, base_offset=offset, base_timestamp=timestamp))
    return batch


def measure(servers: str, reader: str, records: int) -> dict[str, Any]:
    """One run in this process."""
    settings = {"spark.driver.memory": "1g", "spark.sql.execution.arrow.maxRecordsPerBatch": "10000"}
    config = Config(bootstrap_servers=[servers], pipeline=Pipeline(master=f"local[{CORES}]", spark=settings))
    job = Job(config, POLICY)
    spark = start_session(config.pipeline, "bench", uses_kafka=reader == "connector")
    spark.range(1000).mapInArrow(lambda rows: rows, "id long").count()  # the first workers are started
    ranges = find_ranges({"bootstrap_servers": [servers]}, [TOPIC], None, None)
    share = records // PARTITIONS
    slices = cut_slices({one: (0, min(end, share)) for one, (_, end) in ranges.items()}, CORES)
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "out"))
        before, begun = cpu_seconds(), time.monotonic()
        READERS[reader](spark, job, slices, path)
        wall, after = time.monotonic() - begun, cpu_seconds()
        table = spark.read.parquet(path + ("/rows" if reader == "fetch" else ""))
        totals = {
            row["outcome"]: row["n"]
            for row in table.groupBy("outcome").agg({"records": "sum"}).toDF("outcome", "n").collect()
        }
    java, python = (after[kind] - before[kind] for kind in ("java", "python"))
    return {
        "reader": reader, "records": totals["validated"], "rejected": totals.get("rejected", 0), "wall_s": wall,
        "java_cpu_s": java, "python_cpu_s": python, "us_per_record": 1e6 * (java + python) / totals["validated"],
        "records_per_core_s": totals["validated"] / (java + python), **peak_megabytes(),
    }  # fmt: skip


def processes() -> Iterator[tuple[str, Path]]:
    """This process and those that come of it: ("java" or "python", its folder in /proc)."""
    parents: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents.setdefault(int(stat.read_text().rpartition(")")[2].split()[1]), []).append(int(stat.parent.name))
        except OSError:
            continue
    waiting = [os.getpid()]
    while waiting:
        one = waiting.pop()
        waiting += parents.get(one, [])
        folder = Path("/proc", str(one))
        yield ("java" if (folder / "comm").read_text().strip() == "java" else "python"), folder


def cpu_seconds() -> dict[str, float]:
    """CPU so far, with that of ended children."""
    found = {"java": 0.0, "python": 0.0}
    for kind, folder in processes():
        fields = (folder / "stat").read_text().rpartition(")")[2].split()
        own, ended = sum(map(int, fields[11:13])) / TICKS, sum(map(int, fields[13:15])) / TICKS
        found[kind] += own
        found["python"] += ended  # all processes that end here are workers
    return found


def peak_megabytes() -> dict[str, float]:
    """The largest resident memory that a process of each kind has had."""
    found = {"java_mb": 0.0, "python_mb": 0.0}
    for kind, folder in processes():
        for line in (folder / "status").read_text().splitlines():
            if line.startswith("VmHWM:") and int(folder.name) != os.getpid():
                found[f"{kind}_mb"] = max(found[f"{kind}_mb"], int(line.split()[1]) / 1024)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", default="1000000,5000000")
    parser.add_argument("--readers", default="fetch,confluent,connector")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--one", nargs=3, metavar=("SERVERS", "READER", "RECORDS"), help=argparse.SUPPRESS)
    flags = parser.parse_args()
    if flags.one:
        servers, reader, records = flags.one
        print(json.dumps(measure(servers, reader, int(records))))
        return
    counts = sorted(int(count) for count in flags.records.split(","))
    results = []
    with Cluster.start(NEWEST) as cluster:
        produce(cluster.direct, counts[-1])
        for reader in flags.readers.split(","):
            for count in counts:
                command = [sys.executable, __file__, "--one", cluster.direct, reader, str(count)]
                done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
                results.append(json.loads(done.stdout.splitlines()[-1]))
                print(json.dumps(results[-1]), flush=True)
    if flags.json:
        flags.json.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
