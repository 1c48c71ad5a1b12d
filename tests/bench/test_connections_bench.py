"""`make bench-connections` measures what it says, with a few connections."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.program

BENCH = Path(__file__).parents[2] / "bench" / "connections.py"


def test_a_short_run_reports_every_figure(tmp_path: Path) -> None:
    report = tmp_path / "report.md"
    options = ["--idle", "20", "--busy", "5", "--seconds", "0.5", "--markdown", str(report)]
    subprocess.run([sys.executable, BENCH, *options], check=True, timeout=60)
    rows = report.read_text().splitlines()
    assert [row.split("|")[1].strip() for row in rows[2:]] == [
        "20 idle connections: memory of each",
        "their CPU",
        "memory after they have closed, more than before",
        "5 busy connections: requests a second",
        "a new connection beside them: p50 to the first response",
        "p99",
    ]
    assert all(float(row.split("|")[2].split()[0].rstrip("%").replace(",", "")) >= 0 for row in rows[2:])


def test_more_connections_than_open_files_are_an_error() -> None:
    run = subprocess.run([sys.executable, BENCH, "--idle", "1000000000"], capture_output=True, text=True, timeout=60)
    assert run.returncode == 1
    assert "raise it with ulimit -n" in run.stderr
