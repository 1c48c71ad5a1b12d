"""``kafka-sidecar policy``: verdicts, exit codes, errors."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.commands import CliRunner
from support.pages import ROOT
from typer.testing import Result

from kafka_sidecar.policies.builtin.require_header import MESSAGE
from kafka_sidecar.policies.contract import RecordValidationPolicy, TopicMetadata, Unresolved
from kafka_sidecar.proxy.cli.main import app

CONFIG = """
bootstrap_servers: localhost:9092
policies:
  small: {type: limits, max_value_bytes: 10, on_error: open}
  buggy: {type: "policies_on_trial:Buggy"}
  lenient: {type: "policies_on_trial:Buggy", on_error: open}
  asking: {type: "policies_on_trial:Asking"}
topics:
  - {name: orders, policy: "small, require_header:trace-id", percent: 50}
  - {name: payments, policy: small, mode: shadow, percent: 50}
  - {name: "open*", policy: null}
  - {name: "off*", policy: small, mode: "off"}
"""
LIMITS_CLASS = "kafka_sidecar.policies.builtin.limits:Limits"
HEADER_CLASS = "kafka_sidecar.policies.builtin.require_header:RequireHeader"
GOOD = '{"value": "1", "headers": {"trace-id": "x"}}'
NO_HEADER = '{"value": "1"}'


class Buggy(RecordValidationPolicy):
    def validate(self, topic: TopicMetadata, record: Any) -> None:
        raise KeyError("oops")


class Asking(RecordValidationPolicy):
    """Accepts values that were resolved; the value "nothing" cannot be resolved."""

    def __init__(self) -> None:
        self.known: set[object] = set()

    def validate(self, topic: TopicMetadata, record: Any) -> None:
        if record.value not in self.known:
            raise Unresolved(record.value)

    async def resolve(self, key: object) -> None:
        if key == b"nothing":
            raise OSError("no registry")
        if key != b"forgotten":
            self.known.add(key)


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setitem(sys.modules, "policies_on_trial", SimpleNamespace(Buggy=Buggy, Asking=Asking))
    path = tmp_path / "sidecar.yaml"
    path.write_text(CONFIG)
    return str(path)


def run(*arguments: str, records: str | None = None) -> Result:
    return CliRunner().invoke(app, ["policy", *arguments], input=records)


def test_each_record_gets_a_verdict_and_a_rejection_is_exit_code_1(config: str, tmp_path: Path) -> None:
    records = tmp_path / "records.jsonl"
    records.write_text("\n".join([GOOD, "", NO_HEADER, '{"value": "12345678901"}']))
    result = run("test", str(records), "--config", config, "--topic", "orders")
    assert result.stdout.splitlines() == [
        "1: accepted",
        f"3: rejected by require_header (no_header): {MESSAGE % ('orders', 'trace-id')}",
        "4: rejected by small (value_size): Topic orders requires the value to have at most 10 bytes",
    ]
    assert result.exit_code == 1


def test_without_a_rejection_the_exit_code_is_0() -> None:
    result = run("test", "-", "--policy", "require_header:trace-id", records=f"{GOOD}\n{GOOD}\n")
    assert (result.stdout, result.exit_code) == ("1: accepted\n2: accepted\n", 0)


def test_the_policy_flag_may_name_configured_policies(config: str) -> None:
    result = run("test", "-", "--policy", "small", "--config", config, records='{"value": "12345678901"}')
    assert result.stdout.startswith("1: rejected by small (value_size): Topic topic ")


def test_a_failing_policy_is_reported_with_exit_code_1(config: str) -> None:
    result = run("test", "-", "--policy", "buggy", "--config", config, records="{}")
    assert (result.stdout, result.exit_code) == ("1: failed: policy buggy failed: KeyError: 'oops'\n", 1)


def test_a_policy_that_fails_open_is_reported_and_accepts_the_record(config: str) -> None:
    result = run("test", "-", "--policy", "lenient", "--config", config, records="{}")
    assert (result.stdout, result.exit_code) == ("1: accepted\n", 0)
    assert "policy lenient failed open: KeyError" in result.stderr


def test_what_a_policy_needs_is_fetched(config: str) -> None:
    values = ["a", "nothing", "forgotten", "a"]
    records = "\n".join(f'{{"value": "{value}"}}' for value in values)
    result = run("test", "-", "--policy", "asking", "--config", config, records=records)
    assert result.stdout.splitlines() == [
        "1: accepted",
        "2: failed: policy asking could not resolve: no registry",
        "3: failed: policy asking requests the same key again after it was resolved",
        "4: accepted",
    ]


@pytest.mark.parametrize(
    ("arguments", "records", "message"),
    [
        (["-"], "", "no policies to test: give --policy TEXT, or --config FILE and --topic NAME"),
        (["-", "--policy", "nope"], "{}", "kafka-sidecar: --policy: unknown policy 'nope'"),
        (["-", "--policy", "key"], "{}\n{", "-:2: is not JSON"),
        (["-", "--policy", "key"], "\n \n", "-: has no records: write one JSON object a line"),
        (["/no/such/file", "--policy", "key"], "", "/no/such/file: cannot be read: No such file or directory"),
        (["-", "--config", "CONFIG", "--topic", "open-1"], "{}", "open-1: in "),
        (["-", "--config", "/no/such/file", "--topic", "a"], "{}", "/no/such/file: cannot be read"),
    ],
)
def test_invalid_input_is_one_line_and_code_2(arguments: list[str], records: str, message: str, config: str) -> None:
    result = run("test", *(config if word == "CONFIG" else word for word in arguments), records=records)
    assert result.exit_code == 2
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_an_invalid_policy_of_the_file_is_reported_with_the_file_and_not_the_flag(tmp_path: Path) -> None:
    path = tmp_path / "sidecar.yaml"
    path.write_text("bootstrap_servers: a:1\npolicies: {deep: {type: json, max_depth: much}}")
    result = run("test", "-", "--policy", "json", "--config", str(path), records="{}")
    assert result.stderr == f"kafka-sidecar: {path}: policies: policy deep: max_depth: write a whole number\n"


def test_the_list_has_every_policy_with_its_origin_and_settings(config: str) -> None:
    result = run("list", "--config", config)
    assert "key: built in; Every record has a key" in result.stdout
    assert f"small: configured in {config} as limits; Records, keys" in result.stdout
    assert f"buggy: configured in {config} as policies_on_trial:Buggy; no description" in result.stdout
    assert "    max_value_bytes (default: none): The value." in result.stdout.splitlines()
    assert "    after_max (default: 1h): " in result.stdout
    assert result.exit_code == 0


def test_the_list_has_the_reason_why_a_policy_cannot_be_loaded(tmp_path: Path) -> None:
    path = tmp_path / "sidecar.yaml"
    path.write_text("bootstrap_servers: a:1\npolicies: {mine: {type: 'no.such:Thing'}}")
    result = run("list", "--config", str(path))
    assert "mine: configured in" in result.stdout
    assert "cannot be used: policy class Thing of module no.such" in result.stdout


def test_the_policies_of_a_topic_are_explained(config: str) -> None:
    lines = run("explain", "orders", "--config", config).stdout.splitlines()
    assert lines == [
        "orders: small, require_header:trace-id",
        f"  from topics: orders in {config}",
        "  mode enforce for 50 % of the batches, shadow for the others",
        f'  1. small: {LIMITS_CLASS}; reads sizes and timestamps; fails open; settings {{"max_value_bytes": 10}}',
        f"  2. require_header with 'trace-id': {HEADER_CLASS}; reads headers; fails closed",
    ]


def test_the_percentage_of_a_topic_in_shadow_is_not_shown(config: str) -> None:
    assert "  mode shadow" in run("explain", "payments", "--config", config).stdout.splitlines()


@pytest.mark.parametrize(
    ("topic", "why"),
    [
        ("other", "in CONFIG, no entry of topics: matches its name"),
        ("open-1", "in CONFIG, topics: open* has no policy"),
        ("off-1", "in CONFIG, topics: off* has mode off"),
    ],
)
def test_the_reason_for_a_topic_without_policies_is_explained(topic: str, why: str, config: str) -> None:
    result = run("explain", topic, "--config", config)
    assert result.stdout == f"{topic}: records are not validated; {why.replace('CONFIG', config)}\n"
    assert result.exit_code == 0


def test_an_invalid_configuration_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    path = tmp_path / "sidecar.yaml"
    path.write_text("bootstrap_servers: a:1\ntopics: [{name: a, policy: nope}]")
    result = run("explain", "a", "--config", str(path))
    assert result.exit_code == 2
    assert f"{path}:2: topics (entry 1).policy: unknown policy 'nope'" in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("topic", "record", "verdict"),
    [
        ("orders-avro", '{"value_base64": "AgZhbm4A"}', "1: accepted"),
        ("orders-avro", '{"value_base64": "AgZhbm4G"}', "$.cents: a branch that the union does not have at byte 6"),
        ("orders-protobuf", '{"value_base64": "CAESA2FubhgH"}', "1: accepted"),
        ("orders-protobuf", '{"value_base64": "CAESA2H/bg=="}', "$.customer: text that is not UTF-8 at byte 5"),
        ("orders-protobuf", '{"value_base64": "CAEgAQ=="}', "$: a field that the schema does not have at byte 2"),
        ("payments", '{"value": {"id": 1, "amount": 0, "currency": "CHF"}}', "$.amount: exclusiveMinimum 0"),
        ("payments", '{"value": {"id": 1, "amount": 2, "currency": "BTC"}}', "$.currency: enum"),
    ],
)
def test_the_example_with_schemas_says_path_and_rule(topic: str, record: str, verdict: str) -> None:
    config = str(ROOT / "examples/policies/sidecar.yaml")
    result = run("test", "-", "--config", config, "--topic", topic, records=record)
    assert verdict in result.stdout
    assert '; settings {"file": "schemas/' in run("explain", topic, "--config", config).stdout


def test_what_consumers_get_is_explained_too(tmp_path: Path) -> None:
    path = tmp_path / "sidecar.yaml"
    path.write_text("""
bootstrap_servers: a:1
topics:
  - {name: hidden, policy: json, consume: hide}
  - {name: marked, consume: {action: mark, policy: key, header: bad}}
  - {name: plain, policy: json}
""")
    shown = {topic: run("explain", topic, "--config", str(path)).stdout for topic in ("hidden", "marked", "plain")}
    assert "  stored records that json rejects are hidden from consumers" in shown["hidden"]
    assert "  stored records that key rejects get the header bad" in shown["marked"]
    assert "stored records" not in shown["plain"]
