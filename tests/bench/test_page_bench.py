"""The bench of open pages: that it runs and what it says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.program

BENCH = Path(__file__).parents[2] / "bench" / "page.py"


def test_it_says_what_open_pages_cost() -> None:
    words = ["--rate", "2000", "--readers", "2", "--seconds", "0.5", "--reps", "1"]
    said = subprocess.run(
        [sys.executable, BENCH, *words], check=True, capture_output=True, text=True, timeout=60
    ).stdout
    assert re.search(r"2,000 records/s, 2 open pages", said)
    assert re.search(r"CPU without a page \d\.\d+, with them \d\.\d+: \d+\.\d\dx", said)
