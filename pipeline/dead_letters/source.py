"""Spark's data source of letters: one row for each, without what its record contains."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import pyarrow
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from kafka_sidecar.codec.records import Record
from kafka_sidecar.dead_letters.letter import NotALetterError
from kafka_sidecar.dead_letters.letters import read_letter
from kafka_sidecar.pipeline.records.kafka_log import Bound, find_ranges
from kafka_sidecar.pipeline.records.reading import SliceReader
from kafka_sidecar.pipeline.records.slices import Slice, cut_slices
from kafka_sidecar.pipeline.records.source import NEWEST_MAGIC, Task, max_batch_bytes
from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.security.client_settings import client_settings

NAME = "kafka_sidecar_dead_letters"
ROWS_AT_ONCE = 10_000


class Row(NamedTuple):
    """A letter; or, where ``trouble`` says why, a record that is none."""

    letter_topic: str
    letter_partition: int
    letter_offset: int
    timestamp: int  # ms since 1970, of the record
    topic: str | None = None  # that it was sent to
    policy: str | None = None
    reason: str | None = None
    mode: str | None = None
    client_id: str | None = None
    rejection_id: str | None = None
    record_index: int | None = None  # in its batch
    rejected_at: int | None = None  # ms since 1970
    trouble: str | None = None


SCHEMA = (
    "letter_topic string, letter_partition int, letter_offset long, timestamp long, topic string, policy string, "
    "reason string, mode string, client_id string, rejection_id string, record_index long, rejected_at long, "
    "trouble string"
)
_ARROW = {"string": pyarrow.string(), "int": pyarrow.int32(), "long": pyarrow.int64()}
ARROW_SCHEMA = pyarrow.schema([(name, _ARROW[kind]) for name, kind in (one.split() for one in SCHEMA.split(", "))])


class Reader(DataSourceReader):  # type: ignore[misc]  # Spark is not looked into
    """Slices as Spark's tasks."""

    def __init__(self, config: Config, slices: Sequence[Slice]) -> None:
        self._config = config
        self._slices = slices

    def partitions(self) -> list[InputPartition]:
        return [Task(one) for one in self._slices]

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        if not isinstance(partition, Task):  # there is no slice
            return
        rows = letter_rows(self._config, partition.part)
        while some := list(islice(rows, ROWS_AT_ONCE)):
            columns = zip(*some, strict=True)
            arrays = [pyarrow.array(column, kind.type) for column, kind in zip(columns, ARROW_SCHEMA, strict=True)]
            yield pyarrow.RecordBatch.from_arrays(arrays, schema=ARROW_SCHEMA)


def letter_rows(config: Config, part: Slice) -> Iterator[Row]:
    """The rows of one slice. Raises what `SliceReader` does, and CodecError if a batch is damaged."""
    limit = max_batch_bytes(config)
    for batch in SliceReader(config, part).batches():
        if batch.magic != NEWEST_MAGIC or batch.header.is_control:
            continue
        base = batch.header.base_offset
        if base >= part.end:
            return
        for record in batch.records(limit, config.limits.max_records):
            if part.first <= base + record.offset_delta < part.end:
                yield _row(part, base + record.offset_delta, record)


def _row(part: Slice, offset: int, record: Record) -> Row:
    place = (part.topic, part.partition, offset, record.timestamp)
    try:
        why = read_letter(record, offset).reasons
    except NotALetterError as error:
        return Row(*place, trouble=str(error))
    return Row(
        *place, why.topic, why.policy, why.reason, why.mode, why.client_id, why.rejection_id, why.index, why.rejected_at
    )


def read_letters(
    spark: SparkSession, config: Config, topics: Sequence[str], first: Bound | None = None, end: Bound | None = None
) -> DataFrame:
    """What is in these dead letter topics now, between the bounds.

    Raises:
        LogError: a topic cannot be read.
        UnreachableError: no broker responds.
        ValueError: a setting is not valid.
    """
    settings = client_settings(config.bootstrap_servers, config.pipeline.kafka)
    ranges = find_ranges(settings, topics, first, end)
    return load_letters(spark, config, cut_slices(ranges, spark.sparkContext.defaultParallelism))


def load_letters(spark: SparkSession, config: Config, slices: Sequence[Slice]) -> DataFrame:
    """The rows of all slices; nothing is read before they are used."""

    class Source(DataSource):  # type: ignore[misc]
        """The class is sent to the workers, and the slices with it."""

        @classmethod
        def name(cls) -> str:
            return NAME

        def schema(self) -> str:
            return SCHEMA

        def reader(self, schema: Any) -> DataSourceReader:
            return Reader(config, slices)

    spark.dataSource.register(Source)
    return spark.read.format(NAME).load()
