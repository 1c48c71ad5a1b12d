"""The bench of requests that an open page or tap watches: that it runs and what it says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.program

BENCH = Path(__file__).parents[2] / "bench" / "watched_requests.py"


def test_it_says_what_is_added_to_a_request() -> None:
    said = subprocess.run(
        [sys.executable, BENCH, "--requests", "3"], check=True, capture_output=True, text=True, timeout=60
    ).stdout
    assert len(re.findall(r"^ .+(?: +\d+\.\d){6}$", said, re.MULTILINE)) == 7
