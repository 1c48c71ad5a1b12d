"""The demo and the tutorial's programs, run once and together: each waits three seconds for a consumer group."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from harness import admin_pages
from harness.ports import free_ports
from harness.processes import Program
from support.pages import ROOT, Page, page

BIN = Path(sys.executable).parent
TUTORIALS_ADDRESS = "127.0.0.1:19092"


@dataclass(frozen=True, slots=True)
class Sidecar:
    """The tutorial's sidecar, at ports that are free here."""

    listen: str
    admin: str

    def get(self, path: str) -> str:
        return admin_pages.get(f"http://{self.admin}{path}").text

    def has_three_nodes(self) -> bool:
        try:
            return '"3": {' in self.get("/readyz")
        except OSError:
            return False


@dataclass(frozen=True, slots=True)
class Runs:
    demo: Program
    typed: Program  # the Python of the tutorial, as one script
    sidecar: Sidecar  # which that talks to


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    folder = tmp_path_factory.mktemp("examples")
    tutorial = page("docs/tutorial.md")
    with ExitStack() as ends:

        def start(name: str, *command: str | Path) -> Program:
            program = Program(command, folder / f"{name}.log")
            ends.callback(program.kill)
            return program

        demo = start("demo", *demo_command(seconds=0.5))
        cluster = start("cluster", sys.executable, ROOT / command_beginning(tutorial, "python ")[1])
        cluster.wait_for(lambda: cluster.output().endswith("\n"), "telling its addresses", 20)
        ports = free_ports(6)
        sidecar = Sidecar(f"127.0.0.1:{ports[0]}", f"127.0.0.1:{ports[-1]}")
        program, *words = command_beginning(tutorial, "kafka-sidecar run")
        words[words.index("--bootstrap-servers") + 1] = cluster.output().strip()
        words[words.index("--listen") + 1] = sidecar.listen
        started = start("sidecar", BIN / program, *words, "--admin", sidecar.admin)
        started.wait_for(sidecar.has_three_nodes, "ready", 20)
        script = folder / "typed.py"
        typed = [block.text for block in tutorial.blocks if block.language == "python"]
        before_brokers_go = "".join(typed[:3])
        script.write_text(before_brokers_go.replace(TUTORIALS_ADDRESS, sidecar.listen))
        yield Runs(demo, start("typed", sys.executable, script), sidecar)


def demo_command(seconds: float) -> list[str | Path]:
    """The demo, sending for that long."""
    environment = ["env", f"DEMO_SECONDS={seconds}", "COLUMNS=100", "PYTHONUNBUFFERED=1"]
    return [*environment, sys.executable, ROOT / "examples" / "demo.py"]


def command_beginning(tutorial: Page, words: str) -> list[str]:
    """The first command of the tutorial that begins so."""
    lines = (line for block in tutorial.blocks if block.language == "sh" for line in block.text.splitlines())
    return shlex.split(next(line for line in lines if line.startswith(words)))
