"""The tables of known traffic, and a report on them."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kafka_sidecar.pipeline.report.sections import Report, compute
from pipeline.reconcile.conftest import run, write_files
from pipeline.reconcile.emitted import emit
from pipeline.reconcile.traffic import Traffic, traffic

MADE = traffic(seed=1, minutes=30)


@pytest.fixture(scope="session")
def made() -> Traffic:
    return MADE


@pytest.fixture(scope="session")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    write_files(folder / "events", emit(MADE), 1)
    run(spark, folder / "events", folder / "tables")
    return folder / "tables"


@pytest.fixture(scope="session")
def report(spark: SparkSession, tables: Path) -> Report:
    return compute(spark, str(tables), since=0)
