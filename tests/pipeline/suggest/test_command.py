"""The command on a real broker and as a user types it: sampled or whole, large messages, files, what is replayed."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from harness.cluster import Cluster
from pyspark.sql import SparkSession
from rich.console import Console
from support.commands import CliRunner

from kafka_sidecar.codec.records import batches, build_batch
from kafka_sidecar.pipeline.cli import app
from kafka_sidecar.pipeline.records.kafka_log import Bound, LogError
from kafka_sidecar.pipeline.replay import command as replay
from kafka_sidecar.pipeline.suggest.command import Request, Suggestion, suggest
from kafka_sidecar.pipeline.suggest.console import show_proposal
from kafka_sidecar.pipeline.suggest.json_schema import Options
from kafka_sidecar.proxy.config.loading import Config, load
from pipeline.conftest import LOCAL
from pipeline.records.logs import SENT_AT, stored, write_log
from pipeline.records.test_whole import VALUE, log_of_both_formats
from pipeline.suggest.topics import BY_NAME, PARTITIONS, RECORDS, exceptions

LARGE: dict[str, Any] = {"large_messages": {"topics": [{"name": "large"}]}}
QUIET = Console(file=io.StringIO())
OTHERWISE = [(number % PARTITIONS, number // PARTITIONS) for number in exceptions(BY_NAME["mixed"])]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster.start("4.3.1") as cluster:
        servers: dict[str, Any] = {"bootstrap.servers": cluster.direct}
        admin = AdminClient(servers)
        admin.create_topics([NewTopic("mixed", PARTITIONS, 1)])["mixed"].result(30)
        producer = Producer(servers | {"compression.type": "lz4", "linger.ms": 20, "batch.num.messages": 100})
        for number, record in enumerate(BY_NAME["mixed"].records()):
            headers: list[Any] = [(one.key, one.value) for one in record.headers]
            partition, at = number % PARTITIONS, SENT_AT + 1000 * number
            producer.produce("mixed", record.value, record.key, partition, headers=headers, timestamp=at)
            producer.poll(0)
        for data in log_of_both_formats().batches:
            for one in batches(data)[0].records():
                producer.produce("large", one.value, one.key, 0, headers=[(own.key, own.value) for own in one.headers])
            assert producer.flush(30) == 0
        yield cluster


@pytest.fixture(scope="module")
def config(cluster: Cluster) -> Config:
    return Config(bootstrap_servers=[cluster.direct], pipeline=LOCAL)


def suggested(config: Config, path: Path, topic: str = "mixed", **more: Any) -> Suggestion:
    return suggest(config, Request(topic, path=str(path), **more), QUIET)


def test_a_topic_of_a_broker_is_summarized_written_and_replayed(
    spark: SparkSession, config: Config, tmp_path: Path
) -> None:
    known = BY_NAME["mixed"]
    found = suggested(config, tmp_path, options=known.options, samples=9)
    proposal, replayed = found.proposal, found.replayed
    assert {one.name: {"type": one.type, **one.settings} for one in proposal.policies} == {
        f"mixed-{name}": settings for name, settings in known.policies.items()
    }
    written = json.loads((tmp_path / "schemas" / "mixed-value.json").read_text())
    assert written == known.full_schema("value")
    settings = load(tmp_path / "mixed.yaml", {}, {})
    assert (settings.topics[0].name, settings.topics[0].mode) == ("mixed", "shadow")
    assert settings.bootstrap_servers == config.bootstrap_servers
    assert replayed is not None
    assert (replayed.topics[0].records, replayed.topics[0].rejected_records) == (RECORDS, known.rejected)
    places = [(place.partition, place.offset) for reason in replayed.reasons for place in reason.samples]
    assert sorted(places) == sorted(OTHERWISE)
    reasons = {(one.policy, one.reason): one.records for one in replayed.reasons}
    assert reasons == {("mixed-value", "not_of_schema"): 3, ("mixed-headers", "no_header"): 1}
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["proposal"]["records"] == RECORDS
    assert report["replayed"]["topics"][0]["rejected_records"] == known.rejected


def test_large_messages_are_looked_at_whole(spark: SparkSession, config: Config, tmp_path: Path) -> None:
    large = load(
        None, {}, {"bootstrap_servers": config.bootstrap_servers, "large_messages.topics": [{"name": "large"}]}
    )
    settings = large.model_copy(update={"pipeline": LOCAL})
    found = suggested(settings, tmp_path, "large", options=Options(evidence=1)).proposal
    assert found.records == 6
    (sizes,) = (one for one in found.findings if one.text.endswith(" bytes") and one.about == "value")
    assert f"1 to {len(VALUE)}," in sizes.text


def test_parts_of_the_history_are_read(
    spark: SparkSession, config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay, "run", lambda *anything: None)  # which takes longer

    def records(**more: Any) -> int:
        return suggested(config, tmp_path, options=Options(with_ranges=False), **more).proposal.records

    some = records(fraction=0.3)
    assert 0.1 * RECORDS < some < 0.6 * RECORDS
    assert records(fraction=0.3) == some
    assert 2 * 150 <= records(last=150) < 2 * 260  # the batch in which it begins is whole
    assert records(first=Bound(offset=1900), end=Bound(offset=2000)) < 2 * 300
    assert records(first=Bound(time_ms=SENT_AT + 1000 * (RECORDS - 100))) < 400
    with pytest.raises(LogError, match="mixed: there is no record in this range"):
        records(first=Bound(offset=10**6))


def test_what_was_found_is_shown_without_what_a_terminal_obeys(
    spark: SparkSession, config: Config, tmp_path: Path
) -> None:
    found = suggested(config, tmp_path, options=Options(tolerance=0.001))
    shown = io.StringIO()
    show_proposal(found.proposal, found.seconds, Console(file=shown, width=160))
    for text in (
        "mixed: 4,000 records",
        "JSON (3,999 of 4,000, 0 null)",
        "text 1: 0:50",
        "dev-[0-9]+",
        "$.state",
        "off/on",
    ):
        assert text in shown.getvalue()


def segments(folder: Path, value: bytes) -> Path:
    batch = build_batch([type(one)(value, one.key) for one in BY_NAME["large"].records()[:200]], base_timestamp=SENT_AT)
    write_log(folder, "named", 0, stored([batch], append_time=None))
    return folder


def test_names_that_are_hostile_stay_names(spark: SparkSession, tmp_path: Path) -> None:
    name = "a: b\n#\x1b[31m[red]\u2028'"
    folder = segments(tmp_path, json.dumps({name: "x y", "status": "yes: no\n"}).encode())
    found = suggested(Config(bootstrap_servers=["a:1"], pipeline=LOCAL), tmp_path / "out", "named", segments=folder)
    assert list(found.proposal.schemas["value"]["properties"]) == [name, "status"]
    assert found.replayed is not None
    assert found.replayed.topics[0].rejected_records == 0
    shown = io.StringIO()
    show_proposal(found.proposal, 1, Console(file=shown, width=160))
    assert "\x1b" not in shown.getvalue()
    assert "[red]" in shown.getvalue()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--from", "soon"], "write an offset, a time as 2026-10-01T08:00, or a duration as 30d"),
        (["--segments", "/missing"], "/missing has no segment files of t"),
    ],
)
def test_a_mistake_is_one_line(spark: SparkSession, flags: list[str], message: str) -> None:
    done = CliRunner().invoke(app, ["suggest-policy", "t", "--bootstrap-servers", "a:1", *flags])
    assert done.exit_code == 2
    assert message in done.output
    assert done.output.count("\n") == 1


def test_the_report_is_printed_as_json(spark: SparkSession, tmp_path: Path) -> None:
    folder = segments(tmp_path, b'{"a": 1}')
    flags = ["--segments", str(folder), "--path", str(tmp_path / "out"), "--json"]
    done = CliRunner().invoke(app, ["suggest-policy", "named", *flags])
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout[done.stdout.index("{\n") :])
    assert report["proposal"]["schemas"]["value"]["properties"] == {
        "a": {"type": "integer", "minimum": 1, "maximum": 1}
    }
    assert report["file"] == str(tmp_path / "out" / "named.yaml")


def test_a_task_that_cannot_read_is_one_line(spark: SparkSession, tmp_path: Path) -> None:
    write_log(tmp_path, "damaged", 0, [b"\0" * 11 + b"\x40" + b"x" * 64])
    done = CliRunner().invoke(app, ["suggest-policy", "damaged", "--segments", str(tmp_path)])
    assert done.exit_code == 2
    assert f"kafka-sidecar: {tmp_path}/damaged-0/" in done.output
    assert done.output.count("\n") == 1
