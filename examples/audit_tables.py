"""The pipeline's commands, and its tables as rows."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from pyarrow import parquet

Row = dict[str, Any]


def run_pipeline(*words: str | Path) -> None:
    """Run `kafka-sidecar pipeline`; its output is shown if it fails."""
    command = [sys.executable, "-m", "kafka_sidecar.pipeline", *map(str, words)]
    done = subprocess.run(command, env=os.environ, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")


class Tables:
    """Those of `reconcile`, in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def rows(self, name: str, **equal: object) -> list[Row]:
        """The rows of a table in which columns have these values."""
        files = sorted((self._folder / name).rglob("*.parquet"))
        found = [row for file in files for row in parquet.read_table(file, partitioning=None).to_pylist()]
        return [row for row in found if all(row[column] == value for column, value in equal.items())]

    def offsets(self, **equal: object) -> set[int]:
        """All offsets of the ranges in losses."""
        return {
            offset
            for row in self.rows("losses", **equal)
            for offset in range(row["first_offset"], row["last_offset"] + 1)
        }
