"""The command as users run it: the how-to as written, from a real broker, and under spark-submit."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from harness.cluster import Cluster
from harness.versions import NEWEST
from pyspark.sql import SparkSession
from support.pages import page

from kafka_sidecar.pipeline import reconcile
from kafka_sidecar.pipeline.jars import find_jars
from kafka_sidecar.pipeline.reconcile.command import line
from kafka_sidecar.pipeline.reconcile.job import Written
from kafka_sidecar.proxy.config.sections import Reconcile
from pipeline.conftest import SMALL
from pipeline.reconcile import truth
from pipeline.reconcile.conftest import LIMITS, table, write_files
from pipeline.reconcile.emitted import emit
from pipeline.reconcile.traffic import COMPACTED, MINUTE, traffic

MADE = traffic(seed=7, minutes=12)
SETTINGS = "\n".join(
    [
        "pipeline:",
        "  master: local[2]",
        f"  spark: {json.dumps(SMALL)}",
        f"  reconcile: {{lateness: {LIMITS.lateness // MINUTE}m, clock_skew: {LIMITS.clock_skew // 1000}s}}",
    ]
)
OF_FILES = SETTINGS.replace("reconcile: {", f"reconcile: {{compacted_topics: [{COMPACTED}], ")


def type_in(folder: Path, words: Sequence[str]) -> str:
    """Run a command in a folder; its output."""
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def of_how_to(flag: str) -> list[str]:
    blocks = [block.text for block in page("docs/how-to/reconcile.md").blocks if block.language == "sh"]
    (found,) = (shlex.split(text) for text in blocks if flag in text and "--watch" not in text)
    return found


def check(spark: SparkSession, root: Path) -> None:
    expected = truth.rows(MADE, LIMITS.lateness, LIMITS.clock_skew)
    found = table(spark, root, "reconcile")
    keys = {(row["topic"], row["bucket_start"], row["hop"], row["group"]): row for row in found}
    assert {key: (row["seen"], row["missing"], row["state"]) for key, row in keys.items()} == {
        key: (row["seen"], row["missing"], row["state"]) for key, row in expected.items()
    }


def test_the_how_to_reads_files(spark: SparkSession, tmp_path: Path) -> None:
    write_files(tmp_path / "events", emit(MADE), 2)
    (tmp_path / "sidecar.yaml").write_text(f"bootstrap_servers: unused:9092\n{OF_FILES}\n")
    output = type_in(tmp_path, [*of_how_to("--input events"), "--config", "sidecar.yaml"])
    assert re.match(
        rf"batch 0: {len(emit(MADE))} new events, \d hours? computed, rows: \d+ COMPACTED, \d+ FINAL, ", output
    )
    check(spark, tmp_path / "audit-tables")
    (code,) = (block.text for block in page("docs/how-to/reconcile.md").blocks if block.language == "python")
    lost = [row for row in table(spark, tmp_path / "audit-tables", "losses") if row["finding"] == "lost"]
    assert len(lost) == len(type_in(tmp_path, ["python", "-c", code]).splitlines()) - 1 > 0


def test_the_how_to_reads_the_audit_topic(spark: SparkSession, tmp_path: Path) -> None:
    with Cluster.start(NEWEST) as cluster:
        # Which topic is compacted, the broker says.
        topic = NewTopic(COMPACTED, 1, config={"cleanup.policy": "compact"})
        admin = AdminClient({"bootstrap.servers": cluster.direct})
        admin.create_topics([topic])[COMPACTED].result(30)
        producer = Producer({"bootstrap.servers": cluster.direct})
        for event in [*emit(MADE), *emit(MADE)[::3]]:
            producer.produce("counted", json.dumps(event | {"cluster": None}))
        producer.produce("counted", b"not JSON")
        assert producer.flush(30) == 0
        (tmp_path / "sidecar.yaml").write_text(
            f"bootstrap_servers: {cluster.direct}\naudit: {{topic: counted}}\n{SETTINGS}\n"
        )
        type_in(tmp_path, of_how_to("--config sidecar.yaml"))
        check(spark, tmp_path / Reconcile().path)


def test_spark_submit_runs_the_same_job(spark: SparkSession, tmp_path: Path) -> None:
    write_files(tmp_path / "events", emit(MADE), 1)
    (tmp_path / "sidecar.yaml").write_text(f"bootstrap_servers: unused:9092\n{OF_FILES}\n")
    program = Path(reconcile.__file__).parents[1] / "__main__.py"
    jars = ",".join(map(str, find_jars(None)))
    submit = ["spark-submit", "--master", "local[2]", "--jars", jars, str(program)]
    type_in(tmp_path, [*submit, "reconcile", "--config", "sidecar.yaml", "--input", "events", "--path", "audit-tables"])
    check(spark, tmp_path / "audit-tables")


@pytest.mark.parametrize(
    ("states", "text"),
    [
        ({}, "batch 3: 0 new events, 1 hour computed, rows: none; alerts: 2"),
        ({"OPEN": 1, "FINAL": 2}, "batch 3: 0 new events, 1 hour computed, rows: 2 FINAL, 1 OPEN; alerts: 2"),
    ],
)
def test_each_batch_has_its_line(states: dict[str, int], text: str) -> None:
    assert line(Written(3, 0, 1, states, 2)) == text
