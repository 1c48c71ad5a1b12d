"""The moments at which a driver may die: during and after each write of the job."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kafka_sidecar.pipeline.reconcile.tables import Tables

Moment = tuple[str, str]  # the write, and whether it is during or after it
Method = Callable[..., None]
WRITES = ("events", "groups", "finals", "losses", "alerts", "reconcile", "holes")
MERGES = ("merged digests", "merged events", "merged finals")
# After a write is before the next one, and after a merge before anything is deleted.
MOMENTS: tuple[Moment, ...] = (
    *((write, "during") for write in (*WRITES, *MERGES)),
    ("holes", "after"),
    ("merged events", "after"),
)
METHODS = {"write_batch": "", "write_hours": "", "write_all": "", "write_merged": "merged "}


def replacements(act: Callable[[Moment], None]) -> dict[str, Method]:
    """For the methods of `Tables` that write, by name: they call ``act`` during and after each write."""
    return {name: acting(getattr(Tables, name), kind, act) for name, kind in METHODS.items()}


def acting(write: Method, kind: str, act: Callable[[Moment], None]) -> Method:
    def method(tables: Tables, name: str, *values: Any) -> None:
        with once_begun(Path(tables.path(name)), lambda: act((kind + name, "during"))):
            write(tables, name, *values)
        act((kind + name, "after"))

    return method


@contextmanager
def once_begun(folder: Path, act: Callable[[], None]) -> Iterator[None]:
    """Call ``act`` in a thread as soon as the write in the block has files that are not committed."""
    ended = threading.Event()

    def wait() -> None:
        while not ended.is_set():
            if uncommitted(folder) - before:
                act()
                return
            time.sleep(0.003)

    before = uncommitted(folder)
    waiting = threading.Thread(target=wait)
    waiting.start()
    try:
        yield
    finally:
        ended.set()
        waiting.join()


def uncommitted(folder: Path) -> set[str]:
    """The folders that Spark writes to until it commits."""
    folders = {name for _, folders, _ in os.walk(folder) for name in folders}
    return {name for name in folders if name.startswith(("_temporary", ".spark-staging"))}
