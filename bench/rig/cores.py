"""The bench on one core, what it measures on another."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path


def on_two_cores(name: str, work: Callable[[Path, int | None], None]) -> None:
    """Do the work in a folder of its own; it is told the core for what is measured, None where there is only one."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # so that what was started is stopped too
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) >= 2:
        os.sched_setaffinity(0, {cores[1]})
    with tempfile.TemporaryDirectory(prefix=f"{name}-bench-") as folder:
        work(Path(folder), cores[0] if len(cores) >= 2 else None)
