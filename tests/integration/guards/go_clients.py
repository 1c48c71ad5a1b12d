"""Clients in Go that ask for topics, built from `tests/clients` where Go is installed."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

from integration.validation.other_clients import BUILD_LIMIT_S, BUILT, LIMIT_S, SOURCES


def run(client: str, *words: str) -> str:
    """What a client has printed."""
    ended = subprocess.run([_program(client), *words], stdout=subprocess.PIPE, text=True, check=True, timeout=LIMIT_S)
    return ended.stdout.strip()


@cache
def _program(client: str) -> Path:
    program = BUILT / f"guards-{client}"
    BUILT.mkdir(parents=True, exist_ok=True)
    command = ["go", "build", "-o", str(program), f"./guards/{client}"]
    subprocess.run(command, cwd=SOURCES / "go", check=True, timeout=BUILD_LIMIT_S)
    return program
