"""The bench of open taps: that it runs and what it says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.program

BENCH = Path(__file__).parents[2] / "bench" / "tap.py"


def test_it_says_what_each_kind_of_tap_costs() -> None:
    words = ["--rate", "5000", "--seconds", "0.5", "--reps", "1"]
    said = subprocess.run(
        [sys.executable, BENCH, *words], check=True, capture_output=True, text=True, timeout=120
    ).stdout
    assert "5,000 records/s" in said
    for kind in ("records", "records of another topic", "requests", "rejections"):
        assert re.search(rf"^{kind}: \d\.\d+, \d\.\d+: \d+\.\d\dx \(from ", said, re.M)
