"""The Spark job of a suggestion: each task summarizes one slice, and the summaries are merged as a tree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b

from pyspark.sql import SparkSession

from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.records import Batch
from kafka_sidecar.pipeline.records.reading import SliceReader
from kafka_sidecar.pipeline.records.slices import Slice
from kafka_sidecar.pipeline.records.source import NEWEST_MAGIC, max_batch_bytes
from kafka_sidecar.pipeline.suggest.summary import Place, Summary
from kafka_sidecar.proxy.config.loading import Config

HASH_BYTES = 8
HASHES = 1 << 8 * HASH_BYTES


@dataclass(frozen=True, slots=True)
class Job:
    """What is the same for all tasks."""

    config: Config
    fraction: float = 1.0  # of the batches, always the same ones


def summarize(spark: SparkSession, job: Job, slices: Sequence[Slice]) -> Summary:
    """The summary of all slices; large ones are merged by the workers first, so the driver has a few at once."""
    tasks = spark.sparkContext.parallelize(list(slices), len(slices))
    found: Summary = tasks.map(partial(summarize_slice, job)).treeReduce(_merged)
    return found


def _merged(one: Summary, other: Summary) -> Summary:
    return one.merge(other)


def summarize_slice(job: Job, part: Slice) -> Summary:
    """The summary of the batches of one slice. Raises what `SliceReader` does."""
    found = Summary()
    reader = SliceReader(job.config, part)
    limit, max_records = max_batch_bytes(job.config), job.config.limits.max_records
    for batch in reader.batches():
        if batch.magic != NEWEST_MAGIC:
            offset = int.from_bytes(batch.data[:8], "big")
            found.not_read(f"records of format {batch.magic}", Place(part.partition, offset))
            continue
        header = batch.header
        last = header.base_offset + header.last_offset_delta
        if last >= part.end:
            break
        if last >= part.first and not header.is_control and _is_chosen(job, part, header.base_offset):
            _add(found, part, batch, limit, max_records)
    found.deleted = sum(end - first for first, end in reader.deleted)
    found.settle()
    return found


def _is_chosen(job: Job, part: Slice, offset: int) -> bool:
    if job.fraction >= 1:
        return True
    digest = blake2b(b"%d:%d" % (part.partition, offset), digest_size=HASH_BYTES).digest()
    return int.from_bytes(digest, "big") < job.fraction * HASHES


def _add(found: Summary, part: Slice, batch: Batch, limit: int, max_records: int) -> None:
    header = batch.header
    base, newest = header.base_offset, header.max_timestamp
    append_time = newest if header.has_log_append_time else None
    try:
        records = batch.records(limit, max_records, True)  # as_sent
        for record in records:
            found.add(record, Place(part.partition, base + record.offset_delta), append_time, newest)
    except CodecError as error:
        found.not_read(str(error), Place(part.partition, base))
