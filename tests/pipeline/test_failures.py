"""What Spark raises is one line for the user."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from support.commands import CliRunner

from kafka_sidecar.pipeline.cli import app
from kafka_sidecar.pipeline.failures import explain


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "Traceback\n  File x\nkafka_sidecar.pipeline.records.kafka_log.LogError: orders, partition 0: no leader\n",
            "orders, partition 0: no leader",
        ),
        (
            "[STREAM_FAILED] Query [id = 1] terminated with exception: Timed out. SQLSTATE: XXKST\n=== Streaming Query",
            "Timed out.",
        ),
        ("[PATH_NOT_FOUND] Path does not exist: x. SQLSTATE: 42K03", "[PATH_NOT_FOUND] Path does not exist: x."),
        ("", "failed"),
    ],
)
def test_a_failure_is_explained_by_its_line_that_says_why(text: str, line: str) -> None:
    assert explain(PySparkException(text)) == line


def test_reconcile_says_in_one_line_that_its_input_is_missing(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "missing"
    done = CliRunner().invoke(app, ["reconcile", "--input", str(folder), "--path", str(tmp_path / "out")])
    assert done.exit_code == 2
    assert done.output == f"kafka-sidecar: [PATH_NOT_FOUND] Path does not exist: {folder}.\n"
