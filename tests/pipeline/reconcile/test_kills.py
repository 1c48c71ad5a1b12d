"""A driver that is killed at any of its writes, and run again, leaves the same tables."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipeline.reconcile.conftest import run
from pipeline.reconcile.killed import KILLS
from pipeline.reconcile.kills import check_kills


def test_a_driver_that_is_killed_at_each_write_leaves_the_same_tables(spark: SparkSession, tmp_path: Path) -> None:
    check_kills(spark, tmp_path, KILLS["write"])


def test_tables_without_their_progress_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "out" / "events").mkdir(parents=True)
    with pytest.raises(ValueError, match=r"checkpoint is missing, .*; delete the folder above it, too"):
        run(spark, tmp_path / "in", tmp_path / "out")
