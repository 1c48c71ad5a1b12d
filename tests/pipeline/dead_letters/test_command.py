"""`pipeline dead-letters`: the report on letters in files and at a broker, and a replay, a task for each partition."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from harness.cluster import Cluster
from harness.sidecar import COMMAND, Sidecar
from integration.front import Front, started
from integration.replays.written import Sent, dead_letters, rejected, write_letters
from pyspark.sql import SparkSession
from support.dead_letters import AT, REASONS, letter_headers
from support.in_process import config

from kafka_sidecar.codec.records import NewRecord, build_batch
from kafka_sidecar.dead_letters.letters import Choice
from kafka_sidecar.pipeline.dead_letters.command import chosen, report_lines, summarize
from kafka_sidecar.pipeline.dead_letters.replay import tally_of, tally_rows
from kafka_sidecar.pipeline.dead_letters.source import load_letters
from kafka_sidecar.pipeline.records.segments import find_segments
from kafka_sidecar.proxy.cli.dead_letters.replay import Row, Tally
from pipeline.conftest import SMALL
from pipeline.records.logs import stored, write_log

RULES = """
topics:
  - {name: "json-*", policy: json}
"""


def letters_log() -> list[NewRecord]:
    """Five letters, one of them twice, and a record that is none."""
    made = [
        replace(REASONS, index=0), replace(REASONS, index=1, reason="rest_of_batch"),
        replace(REASONS, index=1, reason="rest_of_batch"),
        replace(REASONS, topic="refunds", rejection_id="r-2", mode="shadow", rejected_at=AT + 3_600_000),
        replace(REASONS, rejection_id="r-3", client_id="web", rejected_at=AT + 1),
    ]  # fmt: skip
    return [*(NewRecord(b"{", b"k", letter_headers(one, [("h", b"1")])) for one in made), NewRecord(b"mine")]


def test_a_report_counts_letters_and_writes_one_row_for_each(spark: SparkSession, tmp_path: Path) -> None:
    write_log(tmp_path, "letters", 0, stored([build_batch(letters_log(), base_timestamp=AT)]))
    rows = load_letters(spark, config("a:1"), find_segments(tmp_path, ["letters"]))
    path = str(tmp_path / "out")
    found = summarize(spark, rows, Choice(), path)
    assert (found.letters, found.twice) == (5, 1)
    assert list(found.no_letters.values()) == [1]
    assert [(one.topic, one.reason, one.mode, one.letters, one.batches, one.clients) for one in found.groups] == [
        ("orders", "not_json", "enforce", 2, 2, 2),
        ("orders", "rest_of_batch", "enforce", 2, 1, 1),
        ("refunds", "not_json", "shadow", 1, 1, 1),
    ]
    assert found.groups[0].example == "letters:0:0"
    text = "\n".join(report_lines(found, path))
    assert "1 letter more than once" in text
    assert "1 record is no dead letter" in text
    by_hour = spark.read.parquet(f"{path}/report").collect()
    assert sum(row.letters for row in by_hour) == 5
    assert len({row.hour for row in by_hour}) == 2
    assert "value" not in spark.read.parquet(f"{path}/letters").columns


@pytest.mark.parametrize(
    ("choice", "number"),
    [
        (Choice(topics=frozenset({"refunds"})), 1),
        (Choice(reasons=frozenset({"rest_of_batch"})), 2),
        (Choice(policies=frozenset({"other"})), 0),
        (Choice(rejection_ids=frozenset({"r-3"})), 1),
        (Choice(since=AT + 1), 2),
        (Choice(until=AT + 1), 3),
    ],
)
def test_letters_are_chosen_as_by_the_command(spark: SparkSession, tmp_path: Path, choice: Choice, number: int) -> None:
    write_log(tmp_path, "letters", 0, stored([build_batch(letters_log(), base_timestamp=AT)]))
    rows = load_letters(spark, config("a:1"), find_segments(tmp_path, ["letters"]))
    assert chosen(rows, choice).where("trouble IS NULL").count() == number


def test_the_tallies_of_tasks_add_up() -> None:
    one, other = Tally(read=3, bytes=5, passed_over=1), Tally(read=4)
    one.rows[Row("t", "json", "not_json", "accepted", "")] = 2
    other.rows[Row("t", "json", "not_json", "accepted", "")] = 3
    other.rows[Row("t", "json", "not_json", "INVALID_RECORD", "why")] = 1
    one.not_letters["why"] = 7
    found = tally_of([*tally_rows(one), *tally_rows(other)])
    one.add(other)
    assert found == one
    assert (found.sent, found.refused, found.read) == (5, 1, 7)


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    with started(tmp_path_factory.mktemp("dead-letters"), RULES) as (cluster, sidecar):
        assert isinstance(cluster, Cluster)
        assert isinstance(sidecar, Sidecar)
        yield Front(cluster, sidecar)


def pipeline(*arguments: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own, which ends its Spark session."""
    command = [str(COMMAND), "pipeline", "dead-letters", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def test_a_replay_has_a_task_for_each_partition_and_the_memory_of_the_command(
    spark: SparkSession, front: Front, tmp_path: Path
) -> None:
    front.topic("json-many", 3)
    front.topic("letters-many", 3)
    for partition in range(3):
        write_letters(front.cluster.direct, "letters-many", [
            Sent(b"%d" % n, b"{" if n == 7 else b'"%d.%d"' % (partition, n), (), AT + n,
                 rejected("json-many", partition=n % 3, rejection_id=f"{partition}.{n}"))
            for n in range(400)
        ], partition)  # fmt: skip
    file = tmp_path / "sidecar.yaml"
    file.write_text(
        f"bootstrap_servers: {front.cluster.direct}\npipeline:\n  master: local[2]\n  spark: {json.dumps(SMALL)}\n"
    )
    report = pipeline("report", "letters-many", "--config", str(file), "--path", str(tmp_path / "out"), "--json")
    assert json.loads(report.stdout)["letters"] == 1200
    through = ("--sidecar", front.sidecar.bootstrap, "--json")
    first = pipeline("replay", "letters-many", "--config", str(file), *through)
    assert first.returncode == 1, first.stderr
    assert (json.loads(first.stdout)["accepted"], json.loads(first.stdout)["rejected"]) == (1197, 3)
    values = [value for one in range(3) for value in front.stored("json-many", one, "read_committed")]
    assert sorted(filter(None, values)) == sorted(
        b'"%d.%d"' % (one, n) for one in range(3) for n in range(400) if n != 7
    )
    again = dead_letters("replay", "letters-many", "--bootstrap-servers", front.sidecar.bootstrap, "--json")
    assert (json.loads(again.stdout)["accepted"], json.loads(again.stdout)["rejected"]) == (0, 3)
