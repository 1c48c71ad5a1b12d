"""`make bench-workers` measures what it says, with a few connections."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.program

BENCH = Path(__file__).parents[2] / "bench" / "workers.py"
LOADS = [
    "Produce 1 KB, 1 a request",
    "Produce 1 KB, 45 a request",
    "Consume 1 KB, 45 a response",
    "Produce 1 KB, 45 a request, JSON policy",
]


def test_a_short_run_compares_two_workers_with_one(tmp_path: Path) -> None:
    report, kept = tmp_path / "report.md", tmp_path / "runs.json"
    options = ["--connections", "12", "--reps", "1", "--seconds", "0.1", "--markdown", str(report), "--json", str(kept)]
    run = subprocess.run([sys.executable, BENCH, *options], capture_output=True, text=True, timeout=100)
    assert run.returncode == 0, run.stderr
    rows = [line.split("|")[1].strip() for line in report.read_text().splitlines() if line.startswith("| Pro")]
    assert {row.rpartition(", 12 connections: ")[0] for row in rows} == {load for load in LOADS if load[0] == "P"}
    runs = json.loads(kept.read_text())["runs"]
    assert len(runs) == 2 * len(LOADS)
    assert all(one["requests"] > 0 and one["cpu_s"] > 0 and one["load_s"] > 0 for one in runs)
