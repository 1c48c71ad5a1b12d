"""A run of the job that is killed at one of its writes. Started by kills.py as a process group of its own."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kafka_sidecar.pipeline.reconcile import compaction
from kafka_sidecar.pipeline.reconcile.tables import Tables
from kafka_sidecar.pipeline.session import start_session
from pipeline.conftest import LOCAL
from pipeline.reconcile.conftest import run

# In the order of the job. After a write is before the next one, and after a merge before anything is deleted.
WRITES = ("events", "groups", "finals", "losses", "alerts", "reconcile", "holes")
MERGES = ("merged digests", "merged events", "merged finals")
KILLS = {
    "write": [*((write, "during") for write in WRITES), ("holes", "after")],
    "merge": [*((write, "during") for write in MERGES), ("merged events", "after")],
}


def kill() -> None:
    """Driver and JVM at once, as when the machine is switched off."""
    os.killpg(0, signal.SIGKILL)


def kill_in_write(folder: Path, before: set[str]) -> None:
    """Once Spark has begun to write: in its folder of what is not committed."""
    while not any(name.startswith(("_temporary", ".spark-staging")) for name in names(folder) - before):
        time.sleep(0.001)
    kill()


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*")} if folder.exists() else set()


def killing(original: Callable[..., None], kind: str, write: str, moment: str) -> Callable[..., None]:
    """A method that writes, of which one table's write does not survive."""

    def method(self: Tables, name: str, *values: Any) -> None:
        folder = Path(self.path(name))
        if kind + name == write and moment == "during":
            threading.Thread(target=kill_in_write, args=(folder, names(folder)), daemon=True).start()
        original(self, name, *values)
        if kind + name == write:
            kill()

    return method


def main() -> None:
    source, root, now, write, moment = sys.argv[1:]
    for method, kind in {"write_batch": "", "write_hours": "", "write_all": "", "write_merged": "merged "}.items():
        setattr(Tables, method, killing(getattr(Tables, method), kind, write, moment))
    compaction.MAX_FOLDERS = 2
    run(start_session(LOCAL, "killed", uses_kafka=False), Path(source), Path(root), lambda: int(now))


if __name__ == "__main__":
    main()
