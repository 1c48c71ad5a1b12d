"""The command line of the pipeline, alone and as a command of the sidecar."""

from __future__ import annotations

import subprocess
import sys
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import typer.main
from support.commands import CliRunner
from support.pages import page

from kafka_sidecar.pipeline import cli, settings
from kafka_sidecar.proxy.cli.main import app as sidecar


def commands(group: Any, name: str = "") -> dict[str, Any]:
    """All that can be typed, by its words."""
    found: dict[str, Any] = {}
    for word, one in group.commands.items():
        words = f"{name} {word}".strip()
        found |= commands(one, words) if hasattr(one, "commands") else {words: one}
    return found


COMMANDS = commands(typer.main.get_command(cli.app))


def test_the_sidecars_command_has_the_pipelines_help() -> None:
    ours, theirs = CliRunner().invoke(cli.app, ["--help"]), CliRunner().invoke(sidecar, ["pipeline", "--help"])
    assert ours.exit_code == theirs.exit_code == 0
    assert [line for line in theirs.output.splitlines() if not line.startswith("Usage:")] == [
        line for line in ours.output.splitlines() if not line.startswith("Usage:")
    ]
    assert "Usage: kafka-sidecar pipeline" in " ".join(theirs.output.split())


@pytest.mark.parametrize("program", ["kafka_sidecar.pipeline", "kafka_sidecar"])
def test_help_needs_no_spark(program: str) -> None:
    words = ["--help"] if program == "kafka_sidecar.pipeline" else ["pipeline", "--help"]
    without = "import sys, runpy; sys.modules['pyspark'] = None"
    code = f"{without}; sys.argv[1:] = {words}; runpy.run_module('{program}', run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_documented_with_its_flags(command: str) -> None:
    flags = {name for option in COMMANDS[command].params if option.param_type_name == "option" for name in option.opts}
    reference = page("docs/reference/pipeline.md")
    title = command if command != "jars" else "Jars"
    assert flags - {"--help"} == set(reference.first_column(title))


def test_a_missing_package_is_named_with_its_remedy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def find(name: str) -> ModuleSpec | None:
        return None if name == "pyspark" else find_spec(name)

    monkeypatch.setattr(settings, "find_spec", find)
    with pytest.raises(typer.Exit) as exited:
        settings.load_config(None, {})
    assert exited.value.exit_code == 2
    assert (
        capsys.readouterr().err
        == "kafka-sidecar: pipeline: pyspark not installed; in a clone, pip install '.[pipeline]'\n"
    )


def test_an_invalid_configuration_is_one_line_for_each_mistake(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "sidecar.yaml"
    file.write_text("bootstrap_servers: kafka:9092\npipeline: {reconcile: {target: 101}}\n")
    with pytest.raises(typer.Exit) as exited:
        settings.load_config(file, {})
    assert exited.value.exit_code == 2
    assert "sidecar.yaml:2: pipeline.reconcile.target: write 100 or less" in capsys.readouterr().err


def test_jars_are_verified_by_the_command(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli.app, ["jars"])
    assert (done.exit_code, done.output.startswith("verified: ")) == (0, True)
    failed = CliRunner(env={"PATH": ""}).invoke(cli.app, ["jars", str(tmp_path)])
    assert (failed.exit_code, "install Maven" in failed.output) == (2, True)
