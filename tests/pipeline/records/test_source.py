"""Records as a DataFrame, with the columns of Spark's Kafka source."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from support.in_process import config

from kafka_sidecar.codec.records import Header, NewRecord, build_batch
from kafka_sidecar.pipeline.records.segments import find_segments
from kafka_sidecar.pipeline.records.source import load_records
from pipeline.records.logs import SENT_AT, stored, write_log
from pipeline.records.test_reading import LARGE
from pipeline.records.test_whole import SHOWN, log_of_both_formats


def test_a_topic_is_read_with_whole_messages(spark: SparkSession, tmp_path: Path) -> None:
    for partition in (0, 1):
        write_log(tmp_path, "orders", partition, log_of_both_formats().batches)
    records = load_records(spark, config("a:1", **LARGE), find_segments(tmp_path, ["orders"]))
    found = records.select("partition", "offset", "value").orderBy("partition", "offset").collect()
    assert [(row.partition, row.offset, bytes(row.value)) for row in found] == [
        (partition, *one) for partition in (0, 1) for one in SHOWN
    ]


@pytest.mark.parametrize("appended_at", [None, SENT_AT + 5000])
def test_columns_are_those_of_sparks_source(spark: SparkSession, tmp_path: Path, appended_at: int | None) -> None:
    sent = [NewRecord(b"v", b"k", [Header("h", b"1"), Header("n", None)]), NewRecord(None)]
    write_log(tmp_path, "t", 3, stored([build_batch(sent, base_timestamp=SENT_AT)], 7, appended_at))
    records = load_records(spark, config("a:1"), find_segments(tmp_path, ["t"]))
    kafka = spark.read.format("kafka").option("kafka.bootstrap.servers", "a:1").option("subscribe", "t")
    assert records.dtypes == kafka.option("includeHeaders", True).load().dtypes
    at = datetime.fromtimestamp((appended_at or SENT_AT) / 1000)  # noqa: DTZ006 - as Spark returns it
    first, second = (row.asDict(recursive=True) for row in records.orderBy("offset").collect())
    common = {"topic": "t", "partition": 3, "timestamp": at, "timestampType": int(appended_at is not None)}
    headers = [{"key": "h", "value": bytearray(b"1")}, {"key": "n", "value": None}]
    assert first == {"key": b"k", "value": b"v", "offset": 7, "headers": headers, **common}
    assert second == {"key": None, "value": None, "offset": 8, "headers": None, **common}


def test_without_slices_there_are_no_records(spark: SparkSession) -> None:
    assert load_records(spark, config("a:1"), []).count() == 0
