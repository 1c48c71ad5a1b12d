"""``kafka-sidecar interceptor``: lists, explanations, errors."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.commands import CliRunner
from typer.testing import Result

from kafka_sidecar.interceptors.registry import INTERCEPTORS
from kafka_sidecar.proxy.cli.main import app

CONFIG = """
bootstrap_servers: localhost:9092
interceptors:
  - {type: add_header, name: tenant, topics: ["orders-*"], headers: {tenant: acme}}
  - {type: latency, end_to_end: false}
  - {type: mask_fields, topics: [orders-eu], fields: ["$.card"]}
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "sidecar.yaml"
    path.write_text(CONFIG)
    return path


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(app, ["interceptor", *map(str, words)])


def test_all_built_in_interceptors_are_listed_with_their_settings(config: Path) -> None:
    lines = run("list", "--config", config).output.splitlines()
    assert {line.partition(":")[0] for line in lines if not line.startswith(" ")} == {*INTERCEPTORS.built_in, "tenant"}
    assert any(line.startswith(f"tenant: configured in {config} as add_header; ") for line in lines)
    assert any(line.startswith("    fields (default: none): ") for line in lines)


def test_summaries_in_the_list_are_whole_sentences_and_defaults_are_yaml() -> None:
    lines = run("list").output.splitlines()
    summaries = [line.partition("; ")[2] for line in lines if not line.startswith(" ")]
    assert [summary for summary in summaries if not summary.endswith(".")] == []
    assert any(line.startswith("    separator (default: ' '): ") for line in lines)
    assert any(line.startswith("    hooks (default: [on_send, on_consume]): ") for line in lines)
    assert any(line.startswith("    produce (default: true): ") for line in lines)


def test_the_chain_of_a_topic_is_explained_in_its_order(config: Path) -> None:
    lines = run("explain", "orders-eu", "--config", config).output.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["1. tenant", "2. latency", "3. mask_fields"]
    assert lines[0].endswith(":AddHeader; on_send")  # as in metrics and logs, not on_send_batch
    assert lines[1].endswith("; on_acknowledgement; batches are not decompressed for it")
    assert "on_consume" in lines[2]


def test_a_topic_without_interceptors_is_explained(tmp_path: Path) -> None:
    path = tmp_path / "sidecar.yaml"
    path.write_text("bootstrap_servers: localhost:9092\ninterceptors:\n  - {type: latency, topics: [a]}\n")
    assert run("explain", "b", "--config", path).output == "b: no interceptors\n"


@pytest.mark.parametrize("command", [("interceptor", "explain", "x", "--config"), ("validate",), ("run", "--config")])
def test_an_invalid_interceptor_is_one_line_and_exit_code_2(command: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "sidecar.yaml"
    path.write_text("bootstrap_servers: localhost:9092\ninterceptors:\n  - {type: latency, topic: [a]}\n")
    result = CliRunner().invoke(app, [*command, str(path)])
    assert result.exit_code == 2
    assert result.output.startswith(f"kafka-sidecar: {path}:3: interceptors (entry 1).topic: is not a setting")
    assert result.output.count("\n") == 1
