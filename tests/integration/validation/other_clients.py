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
        program, build, folder = [BUILT / client], ["go", "build", "-o", BUILT / client, f"./{client}"], SOURCES / "go"
    else:
        folder = Path(shutil.copytree(SOURCES / "node", BUILT / "node", dirs_exist_ok=True))
        program, build = ["node", folder / f"{client}.js"], ["npm", "ci", "--silent"]
    subprocess.run(build, cwd=folder, check=True, timeout=BUILD_LIMIT_S)
    return program


def send(client: str, bootstrap: str, topic: str, kind: Kind, waves: Sequence[Wave], partitions: int = 1) -> Outcome:
    """The records of a wave take turns on the partitions; only kafkajs sends to more than one."""
    words = [bootstrap, topic, kind, *([str(partitions)] if partitions > 1 else [])]
    ended = subprocess.run(
        [*command(client), *words], input=typed(waves), stdout=subprocess.PIPE, text=True, check=True, timeout=LIMIT_S
    )
    return printed(ended.stdout)
