"""`make demo-pipeline` as users run it: each fault that it injects into real traffic is found, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.pages import ROOT

pytestmark = pytest.mark.matrix


def test_the_pipeline_finds_what_the_demo_has_injected_and_writes_its_report(tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'tests'}"}
    done = subprocess.run(
        [sys.executable, ROOT / "examples/audit_demo.py"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=500,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "DIFFERENT" not in done.stdout
    assert (tmp_path / "build/demo-pipeline/report.html").stat().st_size > 0
