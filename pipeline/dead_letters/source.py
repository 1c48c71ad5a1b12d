"""Spark's data source of letters: one row for each, without what its record contains."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession

from kafka_sidecar.codec.records import Record
from kafka_sidecar.dead_letters.letter import NotALetterError
from kafka_sidecar.dead_letters.letters import read_letter
from kafka_sidecar.pipeline.records.kafka_log import Bound
from kafka_sidecar.pipeline.records.slices import Slice
from kafka_sidecar.pipeline.records.source import records_of, slices_of
from kafka_sidecar.pipeline.records.tables import in_chunks, load_table
from kafka_sidecar.proxy.config.loading import Config

NAME = "kafka_sidecar_dead_letters"


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


def letter_rows(config: Config, part: Slice) -> Iterator[Row]:
    """The rows of one slice. Raises what `SliceReader` does, and CodecError if a batch is damaged."""
    for batch, record in records_of(config, part):
        yield _row(part, batch.header.base_offset + record.offset_delta, record)


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
    return load_letters(spark, config, slices_of(spark, config, topics, first, end))


def load_letters(spark: SparkSession, config: Config, slices: Sequence[Slice]) -> DataFrame:
    """The rows of all slices; nothing is read before they are used."""
    return load_table(spark, NAME, SCHEMA, slices, lambda part: in_chunks(letter_rows(config, part)))
