"""The how-to as it is written, but for its addresses: rejected records are listed, shown, mended and replayed."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka import Producer
from harness import admin_pages
from harness.ports import free_ports
from harness.processes import Program
from harness.sidecar import COMMAND
from harness.tool_host import ToolHost
from harness.versions import NEWEST
from integration.front import Front
from integration.scenarios.target import LIMIT_S, SILENT, create_topic, eventually
from support.pages import page

pytestmark = [pytest.mark.integration, pytest.mark.slow]
PAGE = page("docs/how-to/dead-letters.md")
CONSOLE = "org.apache.kafka.tools.consumer.ConsoleConsumer"


class Walk:
    """The page's files in a folder, and its commands in their order."""

    def __init__(self, folder: Path, brokers: str) -> None:
        self.folder = folder
        listen, *_, admin = free_ports(110)
        self.sidecar = f"127.0.0.1:{listen}"
        self.admin = f"127.0.0.1:{admin}"
        self.environment = os.environ | {
            "KAFKA_SIDECAR__LISTEN": self.sidecar, "KAFKA_SIDECAR__ADMIN__LISTEN": self.admin,
            "PATH": f"{COMMAND.parent}:{os.environ['PATH']}",
        }  # fmt: skip
        for block in PAGE.blocks:
            if block.mark is not None:
                text = block.text.replace("127.0.0.1:9092", brokers)
                (folder / block.mark.removeprefix("file ")).write_text(text)
        self.run, *self.commands = [
            line for block in PAGE.blocks if block.language == "sh" for line in block.text.splitlines()
        ]

    def type_in(self, command: str, code: int = 0) -> str:
        """What a command of the page prints."""
        done = subprocess.run(
            shlex.split(command), cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=LIMIT_S
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    def is_ready(self) -> bool:
        try:
            return admin_pages.get(f"http://{self.admin}/readyz", 2).status == 200
        except OSError:
            return False


@pytest.fixture
def walk(front: Front, tmp_path: Path) -> Iterator[Walk]:
    create_topic(front.cluster.direct, "orders", 1, {})
    walk = Walk(tmp_path, front.cluster.direct)
    words = shlex.split(walk.run.replace("sidecar.yaml", str(tmp_path / "sidecar.yaml")))
    variables = [f"{name}={value}" for name, value in walk.environment.items()]
    running = Program(["env", *variables, *words], tmp_path / "log")
    try:
        running.wait_for(walk.is_ready, "ready")
        yield walk
    finally:
        running.kill()


def test_the_how_to_works_as_it_is_written(walk: Walk, front: Front, java: Mapping[str, ToolHost]) -> None:
    send(walk.sidecar, "shop", [b'{"order": %d}' % n for n in range(12)], None)
    send(walk.sidecar, "legacy", [b"{%d" % n for n in range(3)], b"1")
    looked, shown, dry, mended, rest = walk.commands

    def listed() -> str:
        return walk.type_in(looked)

    text = eventually(listed, lambda found: re.search(r"^3 ", found, re.M) is not None, "all letters", LIMIT_S)
    assert re.search(r"^12 +orders +require_header +no_header +enforce +shop +.* orders\.dlq:0:0$", text, re.M)
    assert re.search(r"^3 +orders +json +not_json +enforce +legacy ", text, re.M)
    letter = walk.type_in(shown)
    assert "requires records to contain a header" in letter
    assert "order" not in letter.partition("value ")[2]
    asked = walk.type_in(dry, code=1)
    assert "0 would be accepted, 12 rejected, 3 passed over" in asked
    assert "INVALID_RECORD  require_header: Topic orders requires records to contain" in asked
    mended_dry = walk.type_in(f"{mended} --dry-run")
    assert "12 would be accepted, 0 rejected, 3 passed over" in mended_dry
    assert "12 accepted, 0 rejected, 3 passed over" in walk.type_in(mended)
    assert "0 accepted, 3 rejected" in walk.type_in(rest, 1)
    printed = java[NEWEST].run(
        CONSOLE, "--bootstrap-server", front.cluster.direct, "--topic", "orders", "--from-beginning",
        "--max-messages", "12", "--timeout-ms", "20000", "--isolation-level", "read_committed",
        "--formatter-property", "print.headers=true", "--formatter-property", "print.timestamp=true",
    )  # fmt: skip
    values = [line.rsplit("\t", 1)[1] for line in printed.splitlines() if "\t" in line]
    assert [json.loads(value)["order"] for value in values] == list(range(12))
    assert printed.count("trace-id:replayed") == 12
    assert printed.count("CreateTime:1700000000000") == 12


def send(sidecar: str, client_id: str, values: list[bytes], trace_id: bytes | None) -> None:
    """Each in a batch of its own."""
    producer = Producer({
        "bootstrap.servers": sidecar, "client.id": client_id, "batch.num.messages": 1, "logger": SILENT,
    })  # fmt: skip
    headers = [] if trace_id is None else [("trace-id", trace_id)]
    for value in values:
        producer.produce("orders", value, timestamp=1_700_000_000_000, headers=list(headers))
    assert producer.flush(LIMIT_S) == 0
