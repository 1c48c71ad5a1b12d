"""The how-to as it is written, but for its addresses: from an unknown topic to a schema that is enforced."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness import admin_pages
from harness.cluster import SIDECAR_HOST, Cluster
from harness.ports import free_ports
from harness.processes import Program
from harness.versions import NEWEST
from support.pages import page

PAGE = page("docs/how-to/suggest-policy.md")
BIN = Path(sys.executable).parent
LIMIT_S = 300
SETTLES_S = 30


class Walk:
    """The page's files in a folder, its commands in their order, and what they print."""

    def __init__(self, folder: Path, brokers: str) -> None:
        self.folder = folder
        listen, *_, admin = free_ports(110)
        self.admin = f"127.0.0.1:{admin}"
        self.addresses = {"127.0.0.1:9092": brokers, "127.0.0.1:19092": f"127.0.0.1:{listen}"}
        for block in PAGE.blocks:
            if block.mark is not None:
                (folder / block.mark.removeprefix("file ")).write_text(self.adapted(block.text))
        sh = [line for block in PAGE.blocks if block.language == "sh" for line in block.text.splitlines()]
        self.make, self.suggest, self.validate, self.serve, self.enforce = sh
        self.console = [block.text for block in PAGE.blocks if block.language == "console"]
        self.shown = [block.text for block in PAGE.blocks if block.language == "text"]

    def adapted(self, text: str) -> str:
        return re.sub(r"127\.0\.0\.1:1?9092", lambda found: self.addresses[found[0]], text)

    def type_in(self, command: str) -> str:
        """What a command of the page prints."""
        words = shlex.split(self.adapted(command).replace("127.0.0.1:9190", self.admin))
        environment = os.environ | {"PATH": f"{BIN}:{os.environ['PATH']}", "COLUMNS": "100"}
        done = subprocess.run(words, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=LIMIT_S)
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout


@pytest.fixture
def walk(tmp_path: Path) -> Iterator[Walk]:
    with Cluster.start(NEWEST) as cluster:
        yield Walk(tmp_path, cluster.bootstrap)


def test_an_unknown_topic_gets_a_schema_that_is_enforced(walk: Walk) -> None:
    walk.type_in(walk.make)
    printed = words_of(walk.type_in(walk.suggest))
    fields, replayed = map(words_of, walk.shown[1:])
    assert fields in printed
    # How a producer has batched them is its own affair.
    assert "10 records rejected, in" in printed
    assert "10 records rejected, in" in replayed
    file, what = walk.type_in(walk.validate).split(": ", 1)
    assert (file, what) == ("kafka-sidecar-suggestion/orders.yaml", "valid\n")

    shadowed, enforced = walk.console
    sent, asked = (line.removeprefix("$ ") for line in shadowed.splitlines() if line.startswith("$ "))
    words = [*shlex.split(walk.adapted(walk.serve)), "--admin", walk.admin, "--broker-source-address", SIDECAR_HOST]
    sidecar = Program(["env", "-C", walk.folder, BIN / words[0], *words[1:]], walk.folder / "sidecar.log")
    try:
        sidecar.wait_for(lambda: is_ready(walk.admin), "ready", SETTLES_S)
        assert walk.type_in(sent) in shadowed
        rejections = walk.type_in(asked)
        assert '"orders-value"' in rejections
        assert '"mode": "shadow"' in rejections
        assert "$: required status" in rejections
        walk.type_in(walk.enforce)
        sidecar.wait_for(lambda: "configuration applied" in sidecar.output(), "the new file", SETTLES_S)
        again, *_ = enforced.removeprefix("$ ").splitlines()
        assert walk.type_in(again) in enforced
    finally:
        sidecar.kill()


def is_ready(admin: str) -> bool:
    try:
        return admin_pages.get(f"http://{admin}/readyz", 2).status == 200
    except OSError:
        return False


def words_of(text: str) -> str:
    """Without what depends on the width of the terminal."""
    return " ".join(text.replace("─", "").split())
