"""The tutorial is typed as it stands: its programs start, its Python prints and its commands answer what it says."""

from __future__ import annotations

import shlex
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from harness.ports import free_ports
from harness.processes import Program
from pages import ROOT, page

TUTORIAL = page("docs/tutorial.md")
LISTEN = "127.0.0.1:19092"  # where the tutorial has it
BIN = Path(sys.executable).parent


@dataclass(frozen=True, slots=True)
class Sidecar:
    listen: str
    admin: str

    def get(self, path: str) -> str:
        with urllib.request.urlopen(f"http://{self.admin}{path}", timeout=5) as answer:
            return str(answer.read().decode())

    def is_ready(self) -> bool:
        try:
            return '"3": {' in self.get("/readyz")
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return False


def command_beginning(words: str) -> list[str]:
    """The first command of the tutorial that begins so."""
    lines = (line for block in TUTORIAL.blocks if block.language == "sh" for line in block.text.splitlines())
    return shlex.split(next(line for line in lines if line.startswith(words)))


@pytest.fixture
def sidecar(tmp_path: Path) -> Iterator[Sidecar]:
    """The mock cluster and the sidecar of the tutorial's first steps, at ports that are free here."""
    script = ROOT / command_beginning("python ")[1]
    cluster = Program([sys.executable, script], tmp_path / "cluster.log")
    cluster.wait_for(lambda: cluster.output().endswith("\n"), "the cluster's addresses", 10)
    ports = free_ports(6)
    running = Sidecar(f"127.0.0.1:{ports[0]}", f"127.0.0.1:{ports[-1]}")
    program, *words = command_beginning("kafka-sidecar run")
    words[words.index("--bootstrap-servers") + 1] = cluster.output().strip()
    words[words.index("--listen") + 1] = running.listen
    process = Program([BIN / program, *words, "--admin", running.admin], tmp_path / "sidecar.log")
    try:
        process.wait_for(running.is_ready, "ready", 10)
        yield running
    finally:
        process.kill()
        cluster.kill()


def test_the_python_of_the_tutorial_prints_what_it_says(sidecar: Sidecar, tmp_path: Path) -> None:
    typed = [block.text for block in TUTORIAL.blocks if block.language == "python"]
    script = tmp_path / "typed.py"
    script.write_text("".join(typed[:3]).replace(LISTEN, sidecar.listen))
    with (tmp_path / "said").open("wb") as said:
        ended = subprocess.run([sys.executable, script], stdin=subprocess.DEVNULL, stdout=said, stderr=said, timeout=30)
    first = int(sidecar.listen.rpartition(":")[2]) + 1
    nodes = [f"{node} 127.0.0.1 {first + node}" for node in (1, 2, 3)]
    assert (tmp_path / "said").read_text().splitlines() == [*nodes, "b'hello'"]
    assert ended.returncode == 0
    assert 'client_to_proxy_request_total{api_key="Produce"} 1.0' in sidecar.get("/metrics")


def test_the_commands_of_the_tutorial_answer_what_it_says(tmp_path: Path) -> None:
    (file,) = (block.text for block in TUTORIAL.blocks if block.language == "yaml")
    right, wrong = (block.text for block in TUTORIAL.blocks if block.language == "console")
    for text, console, code in ((file, right, 0), (file.replace("20s", "20"), wrong, 2)):
        (tmp_path / "sidecar.yaml").write_text(text)
        command, _, answer = console.removeprefix("$ ").partition("\n")
        program, *words = shlex.split(command)
        ended = subprocess.run([BIN / program, *words], cwd=tmp_path, capture_output=True, text=True, timeout=30)
        assert (ended.stdout + ended.stderr, ended.returncode) == (answer, code)
