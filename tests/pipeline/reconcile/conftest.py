"""A job over files of events, and its tables as Python values."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from kafka_sidecar.pipeline.reconcile.compacted import CompactedTopics
from kafka_sidecar.pipeline.reconcile.events import from_files
from kafka_sidecar.pipeline.reconcile.job import Job, Limits
from kafka_sidecar.pipeline.reconcile.sql import fit
from kafka_sidecar.pipeline.reconcile.tables import Tables
from pipeline.reconcile.emitted import Event
from pipeline.reconcile.traffic import COMPACTED as COMPACTED_TOPIC
from pipeline.reconcile.traffic import MINUTE, START

LIMITS = Limits(lateness=20 * MINUTE, clock_skew=MINUTE // 2, retention=14 * 24 * 60 * MINUTE, target=100)
COMPACTED = CompactedTopics([COMPACTED_TOPIC])
LONG_AFTER = START + 24 * 60 * MINUTE


def write_files(folder: Path, events: Sequence[Event], count: int) -> None:
    """Events in the order of their arrival, in so many files; more can be added to the folder later."""
    folder.mkdir(parents=True, exist_ok=True)
    there = len(list(folder.iterdir()))
    for number in range(count):
        part = events[len(events) * number // count : len(events) * (number + 1) // count]
        (folder / f"{there + number:04}.json").write_text("".join(json.dumps(event) + "\n" for event in part))


def run(
    spark: SparkSession,
    source: Path,
    root: Path,
    clock: Callable[[], int] = lambda: LONG_AFTER,
    files: int = 1000,
    limits: Limits = LIMITS,
) -> None:
    """Read all that is there."""
    job = Job(spark, Tables(spark, str(root)), limits, clock, compacted=COMPACTED.of)
    job.start(from_files(spark, str(source), "json", files), availableNow=True).awaitTermination()


def table(spark: SparkSession, root: Path, name: str) -> list[dict[str, Any]]:
    if not any((root / name).rglob("*.parquet")):
        return []
    return [row.asDict(recursive=True) for row in spark.read.parquet(str(root / name)).collect()]


@pytest.fixture(autouse=True)
def each_test_begins_alike(spark: SparkSession) -> None:
    spark.catalog.clearCache()
    fit(spark)
