"""One Spark session for all tests of the pipeline; `make spark` runs them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import Any

import pytest
from pyspark.sql import SparkSession
from xdist.scheduler import LoadFileScheduling

from kafka_sidecar.pipeline.session import start_session
from kafka_sidecar.proxy.config.sections import Pipeline

# Tables of a few hundred rows: to compile a query, to explain it or to start a task takes longer than to run it.
SMALL = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.ui.explainMode": "simple",
    "spark.driver.memory": "1g",
}
# The files that take longest, which begin first (with --no-loadscope-reorder): else one process waits at the end.
LONGEST = (
    "reconcile/test_kills.py",
    "reconcile/test_states.py",
    "reconcile/test_job.py",
    "reconcile/test_command.py",
    "reconcile/test_compaction.py",
    "reconcile/test_generate.py",
    "suggest/test_how_to.py",
    "suggest/test_command.py",
    "suggest/test_known_topics.py",
)
LOCAL = Pipeline(master="local[1]", spark=SMALL)


class BySession(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
    """As `--dist loadfile`, but the files that share the tables of a report run in the same process."""

    def _split_scope(self, nodeid: str) -> str:
        file = PurePosixPath(nodeid.partition("::")[0])
        return file.parent.name if file.parent.name == "report" else str(file)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> BySession:
    return BySession(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    places = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get("/".join(item.path.parts[-2:]), len(places)))


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
