"""One Spark session for all tests of the pipeline; `make spark` runs them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from kafka_sidecar.pipeline.session import start_session
from kafka_sidecar.proxy.config.pipeline import Pipeline

# Of two cores, and of a heap that shows early what grows.
LOCAL = Pipeline(master="local[2]", spark={"spark.sql.shuffle.partitions": "2", "spark.driver.memory": "1g"})


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = start_session(LOCAL, "tests", uses_kafka=True)
    yield session
    session.stop()
