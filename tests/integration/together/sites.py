"""Where all runs of a process take place, and those that have been begun."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from harness.sidecar import COMMAND
from harness.tool_host import ToolHost
from integration.together.clusters import FourWays
from integration.together.features import Place
from integration.together.runs import Run

AT_ONCE = 3  # runs; most of what each does is to wait
LIMIT_S = 600.0


@dataclass
class Site:
    """A broker, a JVM of clients, and a folder."""

    cluster: FourWays
    java: ToolHost
    folder: Path
    command: Path = COMMAND
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    _begun: dict[frozenset[str], Future[None]] = field(default_factory=dict)
    _pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(AT_ONCE, thread_name_prefix="run"))

    def begin(self, runs: Iterable[frozenset[str]]) -> None:
        """These will be asked for soon."""
        for features in runs:
            if features not in self._begun:
                self._begun[features] = self._pool.submit(self._check, features)

    def outcome(self, features: frozenset[str]) -> None:
        """Returns if all clients get what the model says; raises AssertionError if not."""
        self.begin([features])
        self._begun[features].result(LIMIT_S)

    def _check(self, features: frozenset[str]) -> None:
        topic = f"together-{next(self._numbers)}"
        folder = self.folder / topic
        folder.mkdir()
        Run(self.cluster, self.java, Place(topic, f"{topic}x-denied", folder, features), self.command).check()

    def stop(self) -> None:
        self._pool.shutdown(cancel_futures=True)
