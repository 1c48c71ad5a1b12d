"""The generator of any number of events: the tables of all copies are those that it names."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kafka_sidecar.pipeline.reconcile import job as job_module
from kafka_sidecar.pipeline.reconcile.compacted import CompactedTopics
from kafka_sidecar.pipeline.reconcile.events import from_files
from kafka_sidecar.pipeline.reconcile.job import Job
from kafka_sidecar.pipeline.reconcile.tables import Tables
from pipeline.reconcile.conftest import LIMITS, LONG_AFTER, table
from pipeline.reconcile.generate import COMPACTED_TOPICS, SPAN, generate
from pipeline.reconcile.traffic import traffic


@pytest.mark.usefixtures("several_partitions")
def test_copies_have_the_truth_of_the_original(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_module, "MAX_WRITERS", 2)  # less than there are hours
    copies, at_once = 6, 5
    expected = generate(spark, str(tmp_path / "in"), traffic(seed=2, minutes=20), copies, at_once)
    compacted = CompactedTopics(COMPACTED_TOPICS)
    tables = Tables(spark, str(tmp_path / "out"))
    job = Job(spark, tables, LIMITS, lambda: LONG_AFTER + SPAN, compacted=compacted.of)
    job.start(from_files(spark, str(tmp_path / "in"), "parquet", 10), availableNow=True).awaitTermination()
    rows = table(spark, tmp_path / "out", "reconcile")
    assert Counter(row["state"] for row in rows) == expected.states
    found = [row["missing"] for row in rows if (row["hop"], row["state"]) == ("deliver", "FINAL")]
    assert sum(found) == expected.missing > 0
    assert len(table(spark, tmp_path / "out", "events")) == expected.events
