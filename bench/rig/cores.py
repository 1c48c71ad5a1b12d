"""The bench on one core, the measured programs on another."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path


def on_two_cores(name: str, work: Callable[[Path, int | None], None]) -> None:
    """Run ``work(folder, core)`` with a temporary folder and the core of the measured programs; None: only one core."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # so that started programs are stopped too
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) >= 2:
        os.sched_setaffinity(0, {cores[1]})
    with tempfile.TemporaryDirectory(prefix=f"{name}-bench-") as folder:
        work(Path(folder), cores[0] if len(cores) >= 2 else None)
