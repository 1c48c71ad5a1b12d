"""Brokers that do not respond are one line that names them, and not minutes of silence."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from support.commands import CliRunner

from kafka_sidecar.pipeline import brokers
from kafka_sidecar.pipeline.cli import app
from kafka_sidecar.pipeline.records import kafka_log

AT_MOST_S = 30  # without the start of the session


@pytest.fixture
def silent() -> Iterator[str]:
    """An address that accepts connections and sends nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (brokers, kafka_log):
        monkeypatch.setattr(module, "REACH_S", 3)


@pytest.mark.parametrize(
    "words", [["reconcile"], ["replay-policy", "--topic", "orders", "--policy", "json"]], ids=lambda words: words[0]
)
@pytest.mark.parametrize("listens", [True, False], ids=["silent", "refused"])
def test_brokers_that_do_not_respond_are_named_with_the_settings(
    spark: SparkSession, tmp_path: Path, silent: str, words: list[str], listens: bool
) -> None:
    address = silent if listens else "127.0.0.1:1"
    begun = time.monotonic()
    done = CliRunner().invoke(app, [*words, "--bootstrap-servers", address, "--path", str(tmp_path)])
    assert time.monotonic() - begun < AT_MOST_S
    assert done.exit_code == 2
    assert done.output.count("\n") == 1
    assert f"bootstrap_servers: {address} cannot be reached (" in done.output
    assert done.output.endswith("; check the addresses, and security.protocol, sasl.* and ssl.* of pipeline.kafka\n")


def test_timeouts_are_ours_unless_one_is_configured() -> None:
    assert brokers.with_timeouts({"client.id": "a"}) == {"client.id": "a", **brokers.TIMEOUTS}
    configured = {"request.timeout.ms": "60000"}
    assert brokers.with_timeouts(configured) == configured
