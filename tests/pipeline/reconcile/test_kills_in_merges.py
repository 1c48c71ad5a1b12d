"""A driver that is killed while it merges folders, and run again, leaves the same tables. Beside test_kills.py, so that
the two run in two processes."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from kafka_sidecar.pipeline.reconcile.folders import COMPACTED
from pipeline.reconcile.killed import KILLS
from pipeline.reconcile.kills import check_kills


def test_a_driver_that_is_killed_while_it_merges_leaves_the_same_tables(spark: SparkSession, tmp_path: Path) -> None:
    tables = check_kills(spark, tmp_path, KILLS["merge"])
    assert any(one.kind == COMPACTED for one in tables.folders("events"))
