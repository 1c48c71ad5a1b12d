"""The how-to for a broker without Docker, as it is written, on ports that are free."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from harness.ports import free_ports
from harness.processes import Program
from harness.versions import CACHE, NEWEST
from support.pages import page

pytestmark = pytest.mark.integration

PAGE = "docs/how-to/local-broker.md"
BIN = Path(sys.executable).parent
PORTS = ("9092", "9093", "19092")  # of the page


def commands(folder: Path) -> list[list[str]]:
    """The commands of the page but `make kafka`, after its file was written."""
    # The sidecar takes the port of node 1 too, two after its own.
    ports = dict(zip(PORTS, map(str, free_ports(len(PORTS) + 2)), strict=False))

    def adapt(text: str) -> str:
        return re.sub(r"(?<=127\.0\.0\.1:)\d+", lambda found: ports[found[0]], text)

    blocks = page(PAGE).blocks
    (file,) = [block for block in blocks if block.mark == "file server.properties"]
    (folder / "server.properties").write_text(adapt(file.text))
    (folder / ".cache").symlink_to(CACHE.parent)
    lines = [line for block in blocks if block.language == "sh" for line in block.text.splitlines()]
    assert lines[0] == "make kafka"
    return [shlex.split(adapt(line)) for line in lines[1:]]


@pytest.mark.slow
def test_every_command_runs_and_the_broker_is_used_through_the_sidecar(tmp_path: Path) -> None:
    format_folder, broker, sidecar, *tools = commands(tmp_path)
    assert all(f".cache/kafka/{NEWEST}/*" in command for command in (format_folder, broker, *tools))
    subprocess.run(format_folder, cwd=tmp_path, check=True, capture_output=True, timeout=60)
    programs = [Program(["env", "-C", tmp_path, *broker], tmp_path / "broker.log")]
    try:
        programs[0].wait_for(lambda: "Kafka Server started" in programs[0].output(), "the broker's start", 60)
        programs.append(Program([BIN / sidecar[0], *sidecar[1:]], tmp_path / "sidecar.log"))
        programs[1].wait_for(lambda: "broker listener opened" in programs[1].output(), "the broker's listener", 30)
        printed = [
            subprocess.run(tool, cwd=tmp_path, check=True, capture_output=True, text=True, timeout=60).stdout
            for tool in tools
        ]
    finally:
        for program in reversed(programs):
            program.kill()
    assert "Created topic orders." in printed[0]
    assert "PartitionCount: 1\tReplicationFactor: 1" in printed[1]
