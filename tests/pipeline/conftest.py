"""One Spark session for all tests of the pipeline; `make spark` runs them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from kafka_sidecar.pipeline.session import start_session
from kafka_sidecar.proxy.config.pipeline import Pipeline

# Tables of a few hundred rows: to compile a query would take longer than to run it.
SMALL = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.driver.memory": "1g",
}
LOCAL = Pipeline(master="local[2]", spark=SMALL)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = start_session(LOCAL, "tests", uses_kafka=True)
    yield session
    session.stop()
