"""Spark's data source of a replay: each task reads one slice and returns its rejections and sums.

Policies run where batches are read: only rows of the result go through Spark, never a record.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import pyarrow
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from kafka_sidecar.pipeline.records.reading import SliceReader
from kafka_sidecar.pipeline.records.slices import Slice
from kafka_sidecar.pipeline.replay.job import SCHEMA, Job, Outcome, Row
from kafka_sidecar.pipeline.replay.validation import Replay, find_applied, open_rules
from kafka_sidecar.proxy.features.validation.rules import Rules

NAME = "kafka_sidecar_replay"
ROWS_AT_ONCE = 10_000
ARROW = {"string": pyarrow.string(), "int": pyarrow.int32(), "long": pyarrow.int64()}
ARROW_SCHEMA = pyarrow.schema([(name, ARROW[kind]) for name, kind in (one.split() for one in SCHEMA.split(", "))])

# Of this process: a worker runs several tasks, and what a policy has fetched is good for all of them.
_opened: dict[str, Rules] = {}


class Task(InputPartition):  # type: ignore[misc]  # Spark is not looked into
    """One slice."""

    def __init__(self, part: Slice) -> None:
        super().__init__(part)
        self.part = part


class Reader(DataSourceReader):  # type: ignore[misc]
    """Slices as Spark's tasks."""

    def __init__(self, job: Job, slices: Sequence[Slice]) -> None:
        self._job = job
        self._slices = slices

    def partitions(self) -> list[InputPartition]:
        return [Task(one) for one in self._slices]

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        assert isinstance(partition, Task)
        rows = replay_slice(self._job, partition.part)
        while some := list(islice(rows, ROWS_AT_ONCE)):
            columns = zip(*some, strict=True)
            arrays = [pyarrow.array(column, kind.type) for column, kind in zip(columns, ARROW_SCHEMA, strict=True)]
            yield pyarrow.RecordBatch.from_arrays(arrays, schema=ARROW_SCHEMA)


def replay_slice(job: Job, part: Slice) -> Iterator[Row]:
    """The rows of one slice. Raises what `SliceReader` does."""
    replay = Replay(job, part.topic, find_applied(_rules_of(job), part.topic))
    reader = SliceReader(job.config, part)
    yield from replay.rows(part, reader.batches())
    for first, end in reader.deleted:
        yield Row(
            Outcome.DELETED.value, part.topic, part.partition, first, end, None, None, None, 0, None, None,
            end - first, 0, 0, 0,
        )  # fmt: skip


def _rules_of(job: Job) -> Rules:
    if job.id not in _opened:
        _opened.clear()
        _opened[job.id] = open_rules(job)
    return _opened[job.id]


def load_rows(spark: SparkSession, job: Job, slices: Sequence[Slice]) -> DataFrame:
    """The rows of all slices; nothing is read before they are used."""

    class Source(DataSource):  # type: ignore[misc]
        """The class is sent to the workers, and the job with it."""

        @classmethod
        def name(cls) -> str:
            return NAME

        def schema(self) -> str:
            return SCHEMA

        def reader(self, schema: Any) -> DataSourceReader:
            return Reader(job, slices)

    spark.dataSource.register(Source)
    return spark.read.format(NAME).load()
