"""What a replay finds is what the proxy rejects, record by record: Spark compared with the stage of a Produce."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kafka_sidecar.pipeline.records.segments import find_segments
from kafka_sidecar.pipeline.replay.job import Job, Outcome, Row
from kafka_sidecar.pipeline.replay.source import load_rows, replay_slice
from pipeline.records.logs import sent_batches, stored, write_log
from pipeline.replay.compared import TOPIC_POLICIES, rejected_by_proxy, rejected_by_replay, settings

RECORDS = 10_000


async def test_replay_rejects_the_records_that_the_proxy_rejects_for_the_same_reasons(
    spark: SparkSession, tmp_path: Path
) -> None:
    log = stored(sent_batches(RECORDS))
    for topic in TOPIC_POLICIES:
        write_log(tmp_path, topic, 0, log)
    job = Job(settings())
    slices = find_segments(tmp_path, list(TOPIC_POLICIES))
    rows = [Row(*row) for row in load_rows(spark, job, slices).collect()]
    theirs, ours = await rejected_by_proxy(TOPIC_POLICIES, log), rejected_by_replay(rows)
    assert ours - theirs == theirs - ours == Counter()
    rejected = Counter(topic for topic, *_ in ours)
    assert set(rejected) == set(TOPIC_POLICIES)  # none of them compares nothing with nothing
    validated = {row.topic: row.records for row in rows if row.outcome == Outcome.VALIDATED.value}
    assert validated == dict.fromkeys(TOPIC_POLICIES, RECORDS)


@pytest.mark.parametrize("partition", [0, 3])
def test_a_task_that_is_run_without_spark_returns_the_same_rows(
    spark: SparkSession, tmp_path: Path, partition: int
) -> None:
    write_log(tmp_path, "json", partition, stored(sent_batches(500)))
    job = Job(settings())
    slices = find_segments(tmp_path, ["json"])
    assert [Row(*row) for row in load_rows(spark, job, slices).collect()] == list(replay_slice(job, slices[0]))
