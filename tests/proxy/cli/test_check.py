"""``kafka-sidecar check``: what a file says to producers and to new topics, with exit codes."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.commands import CliRunner
from typer.testing import Result

from kafka_sidecar.proxy.cli.main import app

CONFIG = """
bootstrap_servers: localhost:9092
producers:
  - {topics: [seen], mode: shadow, acks: all}
  - {topics: ["orders*"], principals: ["User:batch"], max_batch_bytes: 100KiB}
  - topics: ["orders*"]
    acks: all
    idempotence: required
    compression: [zstd, lz4]
    client_id: "team-.*"
    min_mean_records: 10
    software: {librdkafka: ">=2.0"}
  - {topics: [plain], transactions: forbidden}
topic_guards:
  - {topics: [seen], mode: shadow, partitions: {min: 3}}
  - naming: "[a-z.]+"
    partitions: {min: 3, max: 6}
    replication_factor: {min: 3, max: 3}
    configs: {retention.ms: {min: 3600000, required: true}}
    other_configs: deny
topic_configs: {topic: _configs}
"""


@pytest.fixture(name="file")
def _file(tmp_path: Path) -> Path:
    file = tmp_path / "sidecar.yaml"
    file.write_text(CONFIG)
    return file


def check(what: str, name: str, file: Path, *flags: str) -> Result:
    return CliRunner().invoke(app, ["check", what, name, "--config", str(file), *flags])


def sets(*settings: str) -> list[str]:
    return [flag for one in settings for flag in ("--set", one)]


def test_a_producer_that_sends_as_required_is_accepted(file: Path) -> None:
    found = check("producer", "orders", file, *sets("compression.type=zstd", "client.id=team-a"))
    assert found.output.splitlines() == [
        "orders: min_mean_records 10 is seen once it sends",
        "orders: accepted by producers (entry 3)",
    ]
    assert found.exit_code == 0


def test_each_habit_that_is_not_as_required_has_the_line_that_the_client_would_get(file: Path) -> None:
    found = check("producer", "orders", file, *sets("acks=1", "client.id=me"), "--software", "librdkafka 1.9.2")
    remedy = "set enable.idempotence=true"
    by = "rejected by producers (entry 3)"
    assert found.output.splitlines()[:5] == [
        f"{by}: acks: Topic orders requires acks=all, not acks=1: set acks=all",
        f"{by}: client_id: Topic orders requires a client id that matches team-.*, not 'me': set client.id",
        f"{by}: software: Topic orders requires librdkafka >=2.0, not '1.9.2': use a newer librdkafka",
        f"{by}: compression: Topic orders requires compression zstd or lz4, not none: set compression.type=zstd",
        f"{by}: idempotence: Topic orders requires batches with a producer id, not without: {remedy}",
    ]
    assert found.exit_code == 1


def test_settings_come_from_a_properties_file_and_flags_win(file: Path, tmp_path: Path) -> None:
    properties = tmp_path / "producer.properties"
    properties.write_text("# of the shop\nbootstrap.servers=kafka:9092\nbatch.size = 200000\n\nacks=1\n")
    flags = ["--properties", str(properties), "--principal", "User:batch"]
    found = check("producer", "orders", file, *flags)
    assert "max_batch_bytes: Topic orders requires" in found.output
    assert found.exit_code == 1
    assert check("producer", "orders", file, *flags, *sets("batch.size=1000")).exit_code == 0


def test_what_is_only_reported_is_no_failure(file: Path) -> None:
    found = check("producer", "seen", file, *sets("acks=0"))
    assert found.output == (
        "reported by producers (entry 1): acks: Topic seen requires acks=all, not acks=0: set acks=all\n"
    )
    assert found.exit_code == 0


def test_a_topic_without_an_entry_requires_nothing(file: Path) -> None:
    found = check("producer", "free", file)
    assert found.output == f"free: accepted; in {file} nothing is required of this producer\n"
    assert check("producer", "plain", file, *sets("transactional.id=a")).exit_code == 1
    assert check("producer", "plain", file).exit_code == 0


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("acks=2", "acks: write all, -1, 0 or 1, in place of '2'"),
        ("compression.type=brotli", "compression.type: write one of none, gzip"),
        ("batch.size=16k", "batch.size: write a number of bytes"),
        ("acks", "'acks': write NAME=VALUE"),
    ],
)
def test_a_setting_that_no_producer_has_is_an_error(file: Path, setting: str, says: str) -> None:
    found = check("producer", "orders", file, *sets(setting))
    assert (found.exit_code, says in found.output) == (2, True), found.output


def test_a_topic_that_complies_is_accepted(file: Path) -> None:
    flags = ["--partitions", "3", "--replication-factor", "3", *sets("retention.ms=7200000")]
    found = check("topic", "orders.eu", file, *flags, *sets("record.validation.policy=json"))
    assert (found.output, found.exit_code) == ("orders.eu: accepted by topic_guards (entry 2)\n", 0)


def test_a_topic_that_violates_a_guard_has_a_line_for_each_violation(file: Path) -> None:
    found = check("topic", "Orders", file, "--partitions", "1", *sets("segment.ms=1"))
    assert found.output.splitlines() == [
        "rejected by topic_guards (entry 2): Orders: its name does not match [a-z.]+: choose another one",
        "rejected by topic_guards (entry 2): Orders: partitions=1, allowed: 3 to 6",
        "rejected by topic_guards (entry 2): Orders: retention.ms is missing: set it to 3600000 at least",
        "rejected by topic_guards (entry 2): Orders: segment.ms may not be set, allowed: retention.ms",
        "Orders: the broker's default numbers are compared too, which only it knows",
    ]
    assert found.exit_code == 1


def test_a_guard_in_shadow_only_reports(file: Path) -> None:
    found = check("topic", "seen", file, "--partitions", "1")
    assert found.output.startswith("reported by topic_guards (entry 1): seen: partitions=1")
    assert found.exit_code == 0
