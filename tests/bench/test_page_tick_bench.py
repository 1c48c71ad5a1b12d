"""The bench of one snapshot: that it runs and what it says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.program

BENCH = Path(__file__).parents[2] / "bench" / "page_tick.py"


def test_it_says_what_each_step_takes() -> None:
    words = ["--ticks", "5", "--readers", "2", "--topics", "30", "--connections", "3"]
    said = subprocess.run(
        [sys.executable, BENCH, *words], check=True, capture_output=True, text=True, timeout=120
    ).stdout
    assert "30 topics, 3 connections, 2 readers, 5 ticks" in said
    for step in ("sample", "snapshot", "JSON", "other parts", "frames, sockets", "one tick"):
        assert re.search(rf"^ *{step} +\d[\d,]* us$", said, re.MULTILINE), step
    assert re.search(r"longest turn \d+\.\d ms; memory grew by -?\d+ MB", said)
    assert re.search(r"bytes: no parts [\d,]+; topics [\d,]+", said)
