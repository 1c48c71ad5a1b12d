"""A schema registry that this project did not write: franz-go's srfake, built from its Go module.

It needs Go. The version, with all that it imports, is that of `tests/schema_registry/go.mod`.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from harness.ports import free_ports
from harness.processes import Program

ROOT = Path(__file__).parents[2]
SOURCES, PROGRAM = ROOT / "tests" / "schema_registry", ROOT / ".cache" / "tools" / "bin" / "schema-registry"
BUILD_LIMIT_S = 600
READY_LIMIT_S = 30
NEEDS_GO = "the schema registry is built with Go, which is not installed"


def has_go() -> bool:
    return shutil.which("go") is not None


@cache
def program() -> Path:
    """Go builds nothing that it has built before."""
    PROGRAM.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        ["go", "build", "-buildvcs=false", "-o", PROGRAM, "."],
        cwd=SOURCES, env={**os.environ, "CGO_ENABLED": "0"}, check=True, timeout=BUILD_LIMIT_S,
    )  # fmt: skip
    return PROGRAM


class SchemaRegistryServer:
    """A registry, empty at first; what it knows is lost when it is stopped."""

    def __init__(self, folder: Path, port: int | None = None) -> None:
        self.port = port or free_ports(1)[0]
        self.url = f"http://127.0.0.1:{self.port}"
        self.program = Program([program(), f"127.0.0.1:{self.port}"], folder / "schema-registry.log")
        self.program.wait_for(self._listens, "ready", READY_LIMIT_S)

    def stop(self) -> None:
        self.program.stop()

    def _listens(self) -> bool:
        with socket.socket() as tried:
            return tried.connect_ex(("127.0.0.1", self.port)) == 0


@contextmanager
def schema_registry(folder: Path) -> Iterator[SchemaRegistryServer]:
    server = SchemaRegistryServer(folder)
    try:
        yield server
    finally:
        server.stop()
