"""Audit events become rows: as the shared schema has them, each once, without those that cannot be read."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from pyspark.sql import SparkSession, functions, types
from support.pages import ROOT

from kafka_sidecar.pipeline.reconcile.events import MAX_REPEATED, event_schema, from_files, hour_of, ids_of, once
from pipeline.reconcile.emitted import emit
from pipeline.reconcile.made import counts, frame, interval, minute, received
from pipeline.reconcile.traffic import traffic

SCHEMA = json.loads((ROOT / "audit/event.schema.json").read_text())


@pytest.mark.parametrize("kind", ["counts", "interval"])
def test_every_property_of_the_shared_schema_is_a_column(kind: str) -> None:
    assert set(SCHEMA["$defs"][kind]["properties"]) <= set(event_schema().names)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("version", "bigint"),
        ("kind", "string"),
        ("emitter_epoch", "bigint"),
        ("group", "string"),
        ("ranges", "array<array<bigint>>"),
        ("ranges_exact", "boolean"),
        ("latency", "struct<base:double,i:array<bigint>,c:array<bigint>>"),
    ],
)
def test_columns_have_the_types_of_the_schema(name: str, kind: str) -> None:
    assert event_schema()[name].dataType.simpleString() == kind


def test_the_events_of_these_tests_follow_the_shared_schema() -> None:
    check = jsonschema.Draft202012Validator(SCHEMA)
    for event in [*emit(traffic(seed=1, minutes=12)), interval("a", 0), counts("a", 0, 0, "commit", [[1, 2]])]:
        check.validate(event)


def test_an_event_that_is_sent_twice_is_stored_once(spark: SparkSession) -> None:
    event = counts("a", 0, 0, "produce_ack", [[0, 9]])
    assert frame(spark, event, event, interval("a", 0, 1)).count() == 2


@pytest.mark.usefixtures("several_partitions")
@pytest.mark.parametrize("again", [0, 1, MAX_REPEATED + 1])
def test_each_event_is_stored_once_however_many_are_repeated(spark: SparkSession, again: int) -> None:
    made = [counts("a", 0, index, "produce_ack", [[0, 9]]) for index in range(20)]
    events = received(spark, *made, *(made[3:9] * 2 if again else ()))
    stored = once(events, replace(ids_of(events), repeated=again)).select("audit_id", "event_index").collect()
    assert sorted(map(tuple, stored)) == sorted((event["audit_id"], event["event_index"]) for event in made)


def test_hours_are_found_with_the_number_of_repeated_ids(spark: SparkSession) -> None:
    first, second, third = (interval("a", seq) for seq in (0, 59, 60))
    later = counts("a", 0, 0, "commit", [[0, 1]], bucket_start=minute(119))
    events = received(spark, first, second, second, second, third, later, later)
    found = ids_of(events)
    assert found.hours == {"2026-01-01-00", "2026-01-01-01"}
    assert found.repeated == 2


@pytest.mark.parametrize("change", [{"version": 2}, {"version": None}, {"audit_id": None}, {"bucket_start": None}])
def test_what_is_not_a_valid_event_is_not_stored(spark: SparkSession, change: dict[str, Any]) -> None:
    assert frame(spark, counts("a", 0, 0, "produce_ack", [[0, 9]]) | change).count() == 0


def test_lines_that_are_no_events_are_read_over(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "events.json").write_text("\n".join(['{"kind":', "[]", "x", json.dumps(interval("a", 0))]))
    stream = from_files(spark, str(tmp_path / "in"), "json", 10).writeStream.format("parquet")
    stream = stream.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
    stream.start(str(tmp_path / "out")).awaitTermination()
    assert spark.read.parquet(str(tmp_path / "out")).where("kind IS NOT NULL").count() == 1


def test_an_hour_is_text_in_utc(spark: SparkSession) -> None:
    rows = spark.createDataFrame(
        [(1_767_225_600_000 + 3_600_000,)], types.StructType([types.StructField("ms", types.LongType())])
    )
    assert rows.select(hour_of(functions.col("ms")).alias("hour")).first().hour == "2026-01-01-01"
