"""A replay with Spark: each task replays one partition of a dead letter topic, as the command does.

A task that Spark starts a second time ends what the first attempt has left open, and goes on after it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from kafka_sidecar.proxy.cli.dead_letters.cluster import connect
from kafka_sidecar.proxy.cli.dead_letters.mending import InterceptorMender
from kafka_sidecar.proxy.cli.dead_letters.replay import Order, PartitionReplay
from kafka_sidecar.proxy.cli.dead_letters.tally import Row, Tally
from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.security.client_settings import client_settings

NAME = "kafka_sidecar_dead_letter_replay"
NUMBERS = "(numbers)"  # the row of a task with its sums
SCHEMA = (
    "topic string, policy string, reason string, outcome string, message string, records long, read long, "
    "passed_over long, bytes long"
)
_ARROW = {"string": pyarrow.string(), "long": pyarrow.int64()}
ARROW_SCHEMA = pyarrow.schema([(name, _ARROW[kind]) for name, kind in (one.split() for one in SCHEMA.split(", "))])


@dataclass(frozen=True, slots=True)
class ReplayJob:
    """What is the same for all tasks. It is sent to workers, so nothing in it is connected or opened."""

    servers: tuple[str, ...]  # of the sidecar
    properties: Mapping[str, str]  # of a client
    order: Order  # without a mender
    mend: Config | None = None  # whose interceptors mend records

    def opened(self) -> Order:
        """The order as a task uses it."""
        return self.order if self.mend is None else replace(self.order, mender=InterceptorMender(self.mend))


class Partition(InputPartition):  # type: ignore[misc]  # Spark is not looked into
    """One partition of a dead letter topic."""

    def __init__(self, topic: str, partition: int) -> None:
        super().__init__((topic, partition))
        self.topic = topic
        self.partition = partition


class Reader(DataSourceReader):  # type: ignore[misc]
    """Partitions as Spark's tasks."""

    def __init__(self, job: ReplayJob, partitions: Sequence[tuple[str, int]]) -> None:
        self._job = job
        self._partitions = partitions

    def partitions(self) -> list[InputPartition]:
        return [Partition(*one) for one in self._partitions]

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        if not isinstance(partition, Partition):  # there is none
            return
        rows = tally_rows(asyncio.run(replay_partition(self._job, partition.topic, partition.partition)))
        columns = zip(*rows, strict=True)
        arrays = [pyarrow.array(column, kind.type) for column, kind in zip(columns, ARROW_SCHEMA, strict=True)]
        yield pyarrow.RecordBatch.from_arrays(arrays, schema=ARROW_SCHEMA)


async def replay_partition(job: ReplayJob, topic: str, partition: int) -> Tally:
    """Raises ClusterError."""
    tally = Tally()
    async with connect(client_settings(job.servers, job.properties)) as cluster:
        await PartitionReplay(cluster, job.opened(), topic, partition, tally).run()
    return tally


def tally_rows(tally: Tally) -> list[tuple[Any, ...]]:
    """A tally as rows of a table; the last one has the sums."""
    rows: list[tuple[Any, ...]] = [(*row, count, 0, 0, 0) for row, count in tally.rows.items()]
    rows += [("", "", "", NUMBERS, why, count, 0, 0, 0) for why, count in tally.not_letters.items()]
    return [*rows, ("", "", "", NUMBERS, "", 0, tally.read, tally.passed_over, tally.bytes)]


def tally_of(rows: Sequence[Any]) -> Tally:
    """The tally of all tasks."""
    tally = Tally()
    for topic, policy, reason, outcome, message, records, read, passed_over, size in rows:
        tally.read += read
        tally.passed_over += passed_over
        tally.bytes += size
        if outcome != NUMBERS:
            tally.rows[Row(topic, policy, reason, outcome, message)] += records
        elif message:
            tally.not_letters[message] += records
    return tally


def run(spark: SparkSession, job: ReplayJob, partitions: Sequence[tuple[str, int]]) -> Tally:
    """Replay these partitions of dead letter topics, as many at once as Spark has cores."""

    class Source(DataSource):  # type: ignore[misc]
        """The class is sent to the workers, and the job with it."""

        @classmethod
        def name(cls) -> str:
            return NAME

        def schema(self) -> str:
            return SCHEMA

        def reader(self, schema: Any) -> DataSourceReader:
            return Reader(job, partitions)

    spark.dataSource.register(Source)
    return tally_of(spark.read.format(NAME).load().collect())
