"""The README as a newcomer reads it: each command that it shows is run by a test, and its file validates records."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Producer
from harness import admin_pages
from harness.processes import Program
from harness.sidecar import Sidecar
from support.pages import ROOT, page

from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.server.admin.http import DEFAULT_ADMIN

pytestmark = pytest.mark.program

README = page("README.md")
# Each command of the README, and what runs it: a file of tests, or of workflows for what runs the tests.
RUN_BY = {
    "make demo": "tests/examples/test_demo.py",
    "make test": ".github/workflows/ci.yml",
    "kafka-sidecar run --bootstrap-servers host:9092": "tests/examples/test_readme.py",
    "docker compose up --wait": "tests/integration/test_compose.py",
    "docker compose down": "tests/integration/test_compose.py",
}


def commands() -> list[str]:
    blocks = [block.text for block in README.blocks if block.language == "sh"]
    return [re.sub(r"\s+#.*", "", line).strip() for text in blocks for line in text.splitlines() if line]


@contextmanager
def mock_cluster(folder: Path) -> Iterator[str]:
    """Its bootstrap.servers."""
    program = Program([sys.executable, ROOT / "examples" / "mock_cluster.py"], folder / "cluster.log")
    try:
        program.wait_for(lambda: "\n" in program.output(), "addresses", 60)
        yield program.output().split("\n")[0]
    finally:
        program.kill()


def outcome(sidecar: Sidecar, value: bytes, headers: dict[str, str | bytes | None]) -> KafkaError | None:
    """What a producer is answered for one record."""
    found: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": sidecar.bootstrap, "message.timeout.ms": 30_000})
    producer.produce("payments", value, headers=headers, on_delivery=lambda error, _: found.append(error))
    assert producer.flush(40) == 0
    producer.close()
    return found[0]


def test_every_command_of_the_readme_is_run_by_a_test() -> None:
    assert set(commands()) == set(RUN_BY)
    assert [file for file in RUN_BY.values() if not (ROOT / file).is_file()] == []


def test_without_a_file_it_relays_and_its_pages_answer(tmp_path: Path) -> None:
    (command,) = (command for command in commands() if command.startswith("kafka-sidecar"))
    assert command.split()[1:3] == ["run", "--bootstrap-servers"]
    with mock_cluster(tmp_path) as brokers, Sidecar.start(brokers, tmp_path / "log") as sidecar:
        assert outcome(sidecar, b"not JSON", {}) is None
        assert "<title>" in admin_pages.get(f"{sidecar.admin}/").text
        assert 'request_total{api_key="Produce"} 1.0' in admin_pages.get(f"{sidecar.admin}/metrics").text
        assert '"1": {' in admin_pages.get(f"{sidecar.admin}/readyz").text


def test_its_addresses_are_the_ones_that_the_readme_has() -> None:
    assert f"`bootstrap.servers={Config.model_fields['listen'].default}`" in README.text
    assert f"`http://{DEFAULT_ADMIN}/`" in README.text


def test_the_file_of_the_readme_rejects_payments_that_are_wrong(tmp_path: Path) -> None:
    (text,) = (block.text for block in README.blocks if block.language == "yaml")
    (path := tmp_path / "sidecar.yaml").write_text(text, encoding="utf-8")
    with (
        mock_cluster(tmp_path) as brokers,
        Sidecar.start(brokers, tmp_path / "log", ["--config", str(path)]) as sidecar,
    ):
        assert outcome(sidecar, b"{}", {"trace-id": b"1"}) is None
        wrong: list[tuple[bytes, dict[str, str | bytes | None]]] = [(b"{", {"trace-id": b"1"}), (b"{}", {})]
        for value, headers in wrong:
            rejected = outcome(sidecar, value, headers)
            assert rejected is not None
            assert rejected.code() == KafkaError.INVALID_RECORD
