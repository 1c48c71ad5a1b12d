"""The tutorial as it is written: its programs start, its Python and its commands print the shown output."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.pages import page

pytestmark = pytest.mark.program

if TYPE_CHECKING:
    from examples.conftest import Runs

BIN = Path(sys.executable).parent


def test_the_python_of_the_tutorial_prints_the_shown_output(runs: Runs) -> None:
    assert runs.typed.popen.wait(30) == 0, runs.typed.output()
    first = int(runs.sidecar.listen.rpartition(":")[2]) + 1
    nodes = [f"{node} 127.0.0.1 {first + node}" for node in (1, 2, 3)]
    assert runs.typed.output().splitlines() == [*nodes, "b'hello'"]
    assert 'client_to_proxy_request_total{api_key="Produce"} 1.0' in runs.sidecar.get("/metrics")


def test_the_commands_of_the_tutorial_print_the_shown_output(tmp_path: Path) -> None:
    blocks = page("docs/tutorial.md").blocks
    file = next(block.text for block in blocks if block.language == "yaml")
    right, wrong = [block.text for block in blocks if block.language == "console"][:2]
    for text, console, code in ((file, right, 0), (file.replace("20s", "20"), wrong, 2)):
        (tmp_path / "sidecar.yaml").write_text(text)
        assert_answers(tmp_path, console, code)


def test_the_policy_and_the_interceptor_of_the_tutorial_work_as_described(tmp_path: Path) -> None:
    blocks = page("docs/tutorial.md").blocks
    for block in blocks:
        if block.mark is not None and block.mark.startswith("file "):
            path = tmp_path / block.mark.removeprefix("file ")
            path.parent.mkdir(exist_ok=True)
            path.write_text(block.text)
    _, _, policys, verdicts, interceptors, chain, results = (
        block.text for block in blocks if block.language == "console"
    )
    assert_answers(tmp_path, verdicts, 1)
    assert_answers(tmp_path, chain, 0)
    assert_answers(tmp_path, results, 0)
    for its_test in (policys, interceptors):
        program, *words = shlex.split(its_test.removeprefix("$ ").partition("\n")[0])
        ended = subprocess.run([BIN / program, *words], cwd=tmp_path, capture_output=True, text=True, timeout=30)
        assert ended.returncode == 0, ended.stdout
        assert "1 passed" in ended.stdout


def assert_answers(folder: Path, console: str, code: int) -> None:
    """The command of a block, typed in the folder, answers the rest of the block."""
    command, _, answer = console.removeprefix("$ ").partition("\n")
    program, *words = shlex.split(command)
    ended = subprocess.run([BIN / program, *words], cwd=folder, capture_output=True, text=True, timeout=30)
    assert (ended.stdout + ended.stderr, ended.returncode) == (answer, code)
