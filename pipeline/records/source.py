"""Records of topics as a DataFrame, with the columns of Spark's Kafka source, and with large messages whole.

from kafka_sidecar.pipeline.records.source import read_topics

orders = read_topics(spark, config, ["orders"])
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow
from pyspark.sql import DataFrame, SparkSession

from kafka_sidecar.codec.records import Batch, Record
from kafka_sidecar.pipeline.records.kafka_log import Bound, find_ranges
from kafka_sidecar.pipeline.records.reading import SliceReader
from kafka_sidecar.pipeline.records.slices import Slice, cut_slices
from kafka_sidecar.pipeline.records.tables import ROWS_AT_ONCE, load_table
from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.security.client_settings import client_settings

NAME = "kafka_sidecar_records"
NEWEST_MAGIC = 2
MORE_BYTES = 1 << 20  # that a batch with a large message may have beside it
BYTES_AT_ONCE = 32 << 20
SCHEMA = (
    "key binary, value binary, topic string, partition int, offset long, timestamp timestamp, timestampType int, "
    "headers array<struct<key: string, value: binary>>"
)
_HEADER = pyarrow.struct([("key", pyarrow.string()), ("value", pyarrow.binary())])
ARROW = pyarrow.schema(
    [
        ("key", pyarrow.binary()),
        ("value", pyarrow.binary()),
        ("topic", pyarrow.string()),
        ("partition", pyarrow.int32()),
        ("offset", pyarrow.int64()),
        ("timestamp", pyarrow.timestamp("us", "UTC")),
        ("timestampType", pyarrow.int32()),
        ("headers", pyarrow.list_(_HEADER)),
    ]
)
Row = tuple[Any, ...]


def read_topics(
    spark: SparkSession, config: Config, topics: Sequence[str], first: Bound | None = None, end: Bound | None = None
) -> DataFrame:
    """The records that are in these topics now, between the bounds; those of aborted transactions, too.

    Raises:
        LogError: a topic cannot be read.
        UnreachableError: no broker responds.
        ValueError: a setting is not valid.
    """
    return load_records(spark, config, slices_of(spark, config, topics, first, end))


def slices_of(
    spark: SparkSession, config: Config, topics: Sequence[str], first: Bound | None, end: Bound | None
) -> list[Slice]:
    """What is in these topics now, between the bounds. Raises as `read_topics` does."""
    settings = client_settings(config.bootstrap_servers, config.pipeline.kafka)
    return cut_slices(find_ranges(settings, topics, first, end), spark.sparkContext.defaultParallelism)


def load_records(spark: SparkSession, config: Config, slices: Sequence[Slice]) -> DataFrame:
    """The records of all slices; nothing is read before they are used."""
    return load_table(spark, NAME, SCHEMA, slices, lambda part: _chunks(read_slice(config, part)), ARROW)


def max_batch_bytes(config: Config) -> int:
    """How many bytes a batch may have, decompressed and with its large messages whole."""
    messages = [topic.max_message + MORE_BYTES for topic in config.large_messages.topics]
    return max([config.validation.max_batch, *messages])


def read_slice(config: Config, part: Slice) -> Iterator[Row]:
    """The rows of one slice. Raises what `SliceReader` does, and CodecError if a batch is damaged."""
    for batch, record in records_of(config, part):
        yield _row(part, batch, record)


def records_of(config: Config, part: Slice) -> Iterator[tuple[Batch, Record]]:
    """The records of one slice with their batches. Raises as `read_slice` does."""
    limit = max_batch_bytes(config)
    for batch in SliceReader(config, part).batches():
        if batch.magic != NEWEST_MAGIC or batch.header.is_control:
            continue
        base = batch.header.base_offset
        if base >= part.end:
            return
        for record in batch.records(limit, config.limits.max_records):
            if part.first <= base + record.offset_delta < part.end:
                yield batch, record


def _row(part: Slice, batch: Batch, record: Record) -> Row:
    return (
        record.key, record.value, part.topic, part.partition, batch.header.base_offset + record.offset_delta,
        record.timestamp * 1000, int(batch.header.has_log_append_time),
        [{"key": one.key, "value": one.value} for one in record.headers] or None,
    )  # fmt: skip


def _chunks(rows: Iterator[Row]) -> Iterator[list[Row]]:
    found, size = list[Row](), 0
    for row in rows:
        found.append(row)
        size += len(row[1] or b"")
        if len(found) == ROWS_AT_ONCE or size >= BYTES_AT_ONCE:
            yield found
            found, size = [], 0
    if found:
        yield found
