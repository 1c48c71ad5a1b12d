"""The lists of plug-ins."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from kafka_sidecar.policies.registry import POLICIES
from kafka_sidecar.proxy.cli.output import list_plugins, load_or_exit


def test_a_configured_entry_replaces_the_plug_in_of_its_name_and_a_broken_one_has_the_reason() -> None:
    own = [("json", "limits", None), ("mine", "no.such:Policy", None)]
    lines = list_plugins(POLICIES, own, Path("sidecar.yaml"))
    assert sum(line.startswith("json: ") for line in lines) == 1
    assert any(line.startswith("json: configured in sidecar.yaml as limits; ") for line in lines)
    (broken,) = (line for line in lines if line.startswith("mine: "))
    assert "; cannot be used: policy class Policy of module no.such" in broken


def test_an_invalid_file_exits_with_code_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "sidecar.yaml"
    path.write_text("listne: x")
    with pytest.raises(typer.Exit) as ended:
        load_or_exit(path)
    assert ended.value.exit_code == 2
    assert capsys.readouterr().err.startswith(f"kafka-sidecar: {path}: ")
