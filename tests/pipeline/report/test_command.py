"""The command, as a user types it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyarrow import parquet
from support.commands import CliRunner

from kafka_sidecar.pipeline.cli import app
from kafka_sidecar.pipeline.report.sections import Report


def test_the_command_writes_the_page_and_each_section(tables: Path, report: Report, tmp_path: Path) -> None:
    (tmp_path / "sidecar.yaml").write_text("bootstrap_servers: 127.0.0.1:1\n")  # no broker is there, or needed
    words = ["report", "--config", "sidecar.yaml", "--path", str(tables), "--output", str(tmp_path / "out")]
    done = subprocess.run(
        [sys.executable, "-m", "kafka_sidecar.pipeline", *words],
        env=os.environ, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, f"{tmp_path}/out/report.html\n"), done.stderr[-3000:]
    assert "<svg" in (tmp_path / "out" / "report.html").read_text()
    for name, table in report.sections.items():
        assert parquet.read_table(tmp_path / "out" / f"{name}.parquet").num_rows == table.num_rows


def test_an_invalid_period_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    done = CliRunner().invoke(app, ["report", "--last", "a week"])
    assert done.exit_code == 2
    assert "--last: " in done.output
