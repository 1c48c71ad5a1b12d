"""The benches are scripts in one folder; their tests import them as they import each other."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "bench"))

if sys.platform != "linux":  # the rig uses epoll and reads /proc
    collect_ignore = [
        "test_intercept_bench.py",
        "test_relay_bench.py",
        "test_two_versions.py",
        "test_validate_bench.py",
    ]
