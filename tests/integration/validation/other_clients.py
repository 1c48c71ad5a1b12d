"""Producers in Go and JavaScript, built from `tests/clients` where these languages are installed."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from integration.validation.waves import Kind, Outcome, Wave, printed, typed
from support.pages import ROOT

SOURCES, BUILT = ROOT / "tests" / "clients", ROOT / ".cache" / "clients"
LIMIT_S = 60
BUILD_LIMIT_S = 600
TOOLS = {"franz-go": "go", "sarama": "go", "kafkajs": "npm"}  # what builds each client


def is_missing(client: str) -> bool:
    return shutil.which(TOOLS[client]) is None


@cache
def command(client: str) -> Sequence[str | Path]:
    """Builds a client's program; the versions are those of go.mod and package-lock.json."""
    BUILT.mkdir(parents=True, exist_ok=True)
    if TOOLS[client] == "go":
        _build("go", "build", "-o", BUILT / client, f"./{client}", folder=SOURCES / "go")
        return [BUILT / client]
    folder = BUILT / "node"
    shutil.copytree(SOURCES / "node", folder, dirs_exist_ok=True)
    _build("npm", "ci", "--silent", folder=folder)
    return ["node", folder / f"{client}.js"]


def _build(*words: str | Path, folder: Path) -> None:
    subprocess.run(words, cwd=folder, check=True, timeout=BUILD_LIMIT_S)


def send(client: str, bootstrap: str, topic: str, kind: Kind, waves: Sequence[Wave], partitions: int = 1) -> Outcome:
    """The records of a wave take turns on the partitions; only kafkajs sends to more than one."""
    words = [bootstrap, topic, kind, *([str(partitions)] if partitions > 1 else [])]
    ended = subprocess.run(
        [*command(client), *words], input=typed(waves), stdout=subprocess.PIPE, text=True, check=True, timeout=LIMIT_S
    )
    return printed(ended.stdout)
