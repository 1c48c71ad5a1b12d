"""The tables in their folder: what a repeated write leaves."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession, types

from kafka_sidecar.pipeline.reconcile.tables import Tables

SCHEMA = types.StructType([types.StructField(name, types.StringType()) for name in ("value", "hour")])
IN_BATCHES = types.StructType([*SCHEMA.fields, types.StructField("batch", types.StringType())])


def test_a_repeated_batch_replaces_itself(spark: SparkSession, tmp_path: Path) -> None:
    tables = Tables(spark, str(tmp_path))
    for batch, value in ((9, "a"), (10, "b"), (10, "c")):
        tables.write_batch("t", spark.createDataFrame([(value, "1")], SCHEMA), batch)
    assert {row.value for row in tables.read("t", IN_BATCHES).collect()} == {"a", "c"}
    assert [row.value for row in tables.read_batches("t", IN_BATCHES, before=10).collect()] == ["a"]


def test_hours_are_replaced_and_those_without_rows_are_deleted(spark: SparkSession, tmp_path: Path) -> None:
    tables = Tables(spark, str(tmp_path))
    tables.write_hours("t", spark.createDataFrame([("a", "1"), ("b", "2"), ("c", "3")], SCHEMA), ["1", "2", "3"])
    tables.write_hours("t", spark.createDataFrame([("d", "1")], SCHEMA), ["1", "2"])
    assert {(row.value, row.hour) for row in tables.read("t", SCHEMA).collect()} == {("d", "1"), ("c", "3")}


def test_a_table_that_was_never_written_is_empty(spark: SparkSession, tmp_path: Path) -> None:
    assert Tables(spark, str(tmp_path)).read("t", SCHEMA).collect() == []
