"""Consumers in Go and JavaScript, built from `tests/clients` where these languages are installed."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from integration.validation.other_clients import BUILD_LIMIT_S, BUILT, SOURCES
from support.pages import ROOT

LIMIT_S = 180
TOOLS = {"franz-go": "go", "sarama": "go", "kafka-go": "go", "kafkajs": "npm", "platformatic": "npm"}
MODULES = {
    "franz-go": "github.com/twmb/franz-go", "sarama": "github.com/IBM/sarama",
    "kafka-go": "github.com/segmentio/kafka-go", "kafkajs": "kafkajs", "platformatic": "@platformatic/kafka",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Shown:
    """A record as the application gets it."""

    offset: int
    size: int
    crc: int  # CRC-32 of the value


def is_missing(client: str) -> bool:
    return shutil.which(TOOLS[client]) is None


def version(client: str) -> str:
    """That of go.mod or package.json."""
    pinned = (ROOT / "tests/clients" / ("go/go.mod" if TOOLS[client] == "go" else "node/package.json")).read_text()
    line = next(line for line in pinned.splitlines() if MODULES[client] in line)
    return line.split()[-1].strip('",')


@cache
def command(client: str) -> Sequence[str | Path]:
    """Builds a client's program."""
    BUILT.mkdir(parents=True, exist_ok=True)
    if TOOLS[client] == "go":
        program = BUILT / f"consume-{client}"
        _build("go", "build", "-o", program, f"./consumers/{client}", folder=SOURCES / "go")
        return [program]
    folder = BUILT / "node"
    shutil.copytree(SOURCES / "node", folder, dirs_exist_ok=True)
    _build("npm", "ci", "--silent", folder=folder)
    return ["node", folder / f"consume-{client}.js"]


def _build(*words: str | Path, folder: Path) -> None:
    subprocess.run(words, cwd=folder, check=True, timeout=BUILD_LIMIT_S)


def read(
    client: str,
    bootstrap: str,
    topic: str,
    count: int,
    *,
    max_wait_ms: int = 500,
    fetch_bytes: int = 1 << 20,
    isolation: str = "read_uncommitted",
    group: str | None = None,
) -> list[Shown]:
    """The records of partition 0 from its start, until there are ``count``, and what comes a second later.

    ``group``: it is a member of this group, begins where the group has committed, and commits what it gets.
    """
    words = [bootstrap, topic, str(count), str(max_wait_ms), str(fetch_bytes), isolation, *([group] if group else [])]
    ended = subprocess.run([*command(client), *words], stdout=subprocess.PIPE, text=True, check=True, timeout=LIMIT_S)
    return [Shown(*map(int, line.split("\t"))) for line in ended.stdout.splitlines()]
