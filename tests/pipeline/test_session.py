"""The Spark session: what the jobs rely on, and what is left to spark-submit."""

from __future__ import annotations

import sys

import pytest
from pyspark.sql import SparkSession

from kafka_sidecar.pipeline import session
from kafka_sidecar.pipeline.session import ASKED_FOR, SETTINGS, Asked


def test_the_session_has_the_settings_that_jobs_rely_on(spark: SparkSession) -> None:
    assert {key: spark.conf.get(key) for key in SETTINGS} == SETTINGS


def test_the_file_overrides_the_settings_of_the_jobs(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.shuffle.partitions") == "1"  # LOCAL of conftest.py has it


def test_workers_run_the_same_python(spark: SparkSession) -> None:
    assert spark.sparkContext.pythonExec == sys.executable


def test_the_connector_is_there(spark: SparkSession) -> None:
    assert spark.read.format("kafka") is not None
    assert len(spark.conf.get("spark.jars").split(",")) == 5


@pytest.mark.parametrize(("port", "submitted"), [(None, False), ("12345", True)])
def test_spark_submit_is_recognised(port: str | None, submitted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    if port is not None:
        monkeypatch.setenv("PYSPARK_GATEWAY_PORT", port)
    assert session.is_submitted() is submitted


def test_methods_that_every_column_asks_for_are_looked_for_once(spark: SparkSession) -> None:
    java = spark.sparkContext._jvm
    asked = [getattr(java, name) for name in ASKED_FOR]
    assert all(isinstance(one, Asked) for one in asked)
    assert asked[0].col is asked[1].col
