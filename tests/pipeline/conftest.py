"""One Spark session for all tests of the pipeline; `make spark` runs them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pyspark.sql import SparkSession

from kafka_sidecar.pipeline.session import start_session
from kafka_sidecar.proxy.config.pipeline import Pipeline

# Tables of a few hundred rows: to compile a query, to explain it or to start a task takes longer than to run it.
SMALL = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.ui.explainMode": "simple",
    "spark.driver.memory": "1g",
}
LOCAL = Pipeline(master="local[1]", spark=SMALL)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = start_session(LOCAL, "tests", uses_kafka=True)
    yield session
    session.stop()


@contextmanager
def in_several_partitions(spark: SparkSession) -> Iterator[None]:
    """For tests that would not notice otherwise that rows which belong together are apart."""
    spark.conf.set("spark.sql.shuffle.partitions", "3")
    try:
        yield
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", SMALL["spark.sql.shuffle.partitions"])


@pytest.fixture
def several_partitions(spark: SparkSession) -> Iterator[None]:
    with in_several_partitions(spark):
        yield
