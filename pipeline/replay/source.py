"""Spark's data source of a replay: each task reads one slice and returns its rejections and sums.

Policies run where batches are read: only rows of the result go through Spark, never a record.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pyspark.sql import DataFrame, SparkSession

from kafka_sidecar.pipeline.records.reading import SliceReader
from kafka_sidecar.pipeline.records.slices import Slice
from kafka_sidecar.pipeline.records.tables import in_chunks, load_table
from kafka_sidecar.pipeline.replay.job import SCHEMA, Job, Outcome, Row
from kafka_sidecar.pipeline.replay.validation import Replay, find_applied, open_rules
from kafka_sidecar.proxy.features.validation.rules import Rules

NAME = "kafka_sidecar_replay"

# Of this process: a worker runs several tasks, and what a policy has fetched is good for all of them.
_opened: dict[str, Rules] = {}


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
    return load_table(spark, NAME, SCHEMA, slices, lambda part: in_chunks(replay_slice(job, part)))
