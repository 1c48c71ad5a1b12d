"""Counts lines of Python instead of milliseconds: of those that run in one turn of the loop there are few."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any, Self

MAX_LINES = 40_000  # in one turn: a few milliseconds


class Lines:
    """How many have run inside the last ``with``, and inside any of them at most."""

    def __init__(self) -> None:
        self.most = self.count = 0
        self._before: Any = None

    def __enter__(self) -> Self:
        self.count = 0
        self._before = sys.gettrace()
        sys.settrace(self._trace)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        sys.settrace(self._before)
        self.most = max(self.most, self.count)

    def _trace(self, frame: Any, event: str, argument: Any) -> Any:
        self.count += 1
        return self._trace
