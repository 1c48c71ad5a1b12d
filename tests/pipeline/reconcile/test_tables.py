"""The tables in their folder: what a repeated write leaves."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession, types

from kafka_sidecar.pipeline.reconcile.folders import COMPACTED, Folder
from kafka_sidecar.pipeline.reconcile.tables import Tables

SCHEMA = types.StructType([types.StructField(name, types.StringType()) for name in ("value", "hour")])
IN_FOLDERS = types.StructType([*SCHEMA.fields, types.StructField("batch", types.StringType())])


def values(tables: Tables, before: int | None = None) -> set[tuple[str, str]]:
    rows = tables.read_folders("t", IN_FOLDERS, tables.folders("t", before)).collect()
    return {(row.value, row.hour) for row in rows}


def test_a_repeated_batch_replaces_itself(spark: SparkSession, tmp_path: Path) -> None:
    tables = Tables(spark, str(tmp_path))
    for batch, rows in ((9, [("a", "1")]), (10, [("b", "1"), ("b", "2"), ("b", "3")]), (10, [("c", "1")])):
        tables.write_batch("t", spark.createDataFrame(rows, SCHEMA), batch, hours=["1", "2"])
    assert values(tables) == {("a", "1"), ("c", "1"), ("b", "3")}
    assert values(tables, before=10) == {("a", "1")}


def test_a_merged_folder_replaces_those_before_it(spark: SparkSession, tmp_path: Path) -> None:
    tables = Tables(spark, str(tmp_path))
    for batch in (1, 2, 3):
        tables.write_batch("t", spark.createDataFrame([(f"v{batch}", "1"), (f"w{batch}", "2")], SCHEMA), batch)
    merged = Folder("1", 2, COMPACTED)
    tables.write_merged("t", spark.createDataFrame([("merged", "1")], SCHEMA), merged)
    assert values(tables) == {("merged", "1"), ("v3", "1"), ("w1", "2"), ("w2", "2"), ("w3", "2")}
    assert tables.hidden("t") == [Folder("1", 1), Folder("1", 2)]
    (tmp_path / "t" / merged.name / "_SUCCESS").unlink()  # as if it were still being written
    assert ("merged", "1") not in values(tables)
    assert tables.hidden("t") == [merged]


def test_hours_are_replaced_and_those_without_rows_are_deleted(spark: SparkSession, tmp_path: Path) -> None:
    tables = Tables(spark, str(tmp_path))
    tables.write_hours("t", spark.createDataFrame([("a", "1"), ("b", "2"), ("c", "3")], SCHEMA), ["1", "2", "3"])
    tables.write_hours("t", spark.createDataFrame([("d", "1")], SCHEMA), ["1", "2"])
    assert {(row.value, row.hour) for row in tables.read("t", SCHEMA).collect()} == {("d", "1"), ("c", "3")}


def test_a_table_that_was_never_written_is_empty(spark: SparkSession, tmp_path: Path) -> None:
    assert Tables(spark, str(tmp_path)).read("t", SCHEMA).collect() == []
