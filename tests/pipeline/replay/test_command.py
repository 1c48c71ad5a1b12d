"""The command as a user runs it, on segment files: report, table, JSON, and errors of one line."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from rich.console import Console
from support.commands import CliRunner

from kafka_sidecar.pipeline.cli import app
from kafka_sidecar.pipeline.replay.command import Request, parse_bound, parse_grouping, replay_policy
from kafka_sidecar.pipeline.replay.console import show
from kafka_sidecar.proxy.config.loading import Config
from pipeline.conftest import LOCAL
from pipeline.records.logs import sent_batches, stored, write_log

CONFIG = Config(bootstrap_servers=["a:1"], pipeline=LOCAL)


def test_the_report_has_sums_reasons_samples_and_groups(spark: SparkSession, tmp_path: Path) -> None:
    log = stored(sent_batches(1000))
    for topic in ("orders", "refunds"):
        write_log(tmp_path, topic, 0, log)
    topics = ("orders", "refunds")
    request = Request(topics, "json, key", segments=tmp_path, by="key", plain=True, top=2, path=str(tmp_path / "out"))
    report = replay_policy(CONFIG, request, Console(file=io.StringIO()))
    assert [(one.topic, one.records, one.deleted) for one in report.topics] == [
        ("orders", 1000, 0),
        ("refunds", 1000, 0),
    ]
    one = report.topics[0]
    assert sum(reason.records for reason in report.reasons if reason.topic == "orders") == one.rejected_records
    assert 0 < one.rejected_batches < one.batches
    assert one.rejected_records < one.records_of_rejected_batches < one.records
    assert len(report.groups) == 2
    assert all(1 <= len(reason.samples) <= 3 for reason in report.reasons)
    assert json.loads((tmp_path / "out" / "report.json").read_text())["topics"][1]["topic"] == "refunds"
    printed = io.StringIO()
    show(report, "key", Console(file=printed, width=160))
    for word in ("1,000 records in", "not_json", "no_key", "order-1", "refunds", "Topic orders requires"):
        assert word in printed.getvalue()
    assert "broken" not in printed.getvalue()


def test_a_timestamp_policy_comes_with_a_note(spark: SparkSession, tmp_path: Path) -> None:
    write_log(tmp_path, "t", 0, stored(sent_batches(100)))
    request = Request(("t",), "timestamp", segments=tmp_path, path=str(tmp_path / "out"))
    (note,) = replay_policy(CONFIG, request, Console(file=io.StringIO())).notes
    assert note.startswith("policy timestamp: the log does not say when a broker got a record")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--policy", "nothing"], "t: unknown policy 'nothing'"),
        ([], "t has no policy: give one with --policy, or an entry of topics: with --config"),
        (["--policy", "json", "--by", "value"], "--by: write key or header:NAME in place of 'value'"),
        (["--policy", "json", "--from", "soon"], "write an offset, a time as 2026-10-01T08:00, or a duration as 30d"),
        (["--policy", "json", "--segments", "/missing"], "/missing has no segment files of t"),
    ],
)
def test_a_mistake_is_one_line(spark: SparkSession, flags: list[str], message: str) -> None:
    done = CliRunner().invoke(app, ["replay-policy", "--topic", "t", "--bootstrap-servers", "a:1", *flags])
    assert done.exit_code == 2
    assert message in done.output
    assert done.output.count("\n") == 1


def test_ends_of_a_range_are_offsets_times_or_durations() -> None:
    now = 1_760_000_000_000
    bounds = [parse_bound(text, now) for text in ("7", "1d", "2025-10-09T08:53:20", "2025-10-09T10:53:20+02:00")]
    assert [bound and (bound.offset, bound.time_ms) for bound in bounds] == [
        (7, None), (None, now - 86_400_000), (None, now), (None, now),
    ]  # fmt: skip
    assert parse_bound(None, now) is None


def test_groups_are_keys_or_headers() -> None:
    key, header = parse_grouping("key", False), parse_grouping("header:a:b", True)
    assert key is not None
    assert header is not None
    assert (key.header, header.header, header.plain) == (None, "a:b", True)
