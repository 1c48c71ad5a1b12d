"""Log levels that were changed for a limited time, for workers that are started again meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlencode

from kafka_sidecar.plugins.units import seconds
from kafka_sidecar.proxy.server.admin.log_levels import DEFAULT, DEFAULT_FOR, ROOT

PATH = "PUT /log-level"


@dataclass(frozen=True, slots=True)
class _Changed:
    level: str
    until: float  # by the clock


class ChangedLevels:
    """What all workers have changed."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock  # seconds
        self._by_logger: dict[str, _Changed] = {}

    def remember(self, target: str) -> None:
        """A request that the workers have accepted."""
        query = dict(parse_qsl(target.partition("?")[2]))
        logger = query.get("logger", ROOT)
        self._by_logger.pop(logger, None)
        if query["level"] != DEFAULT:
            until = self._clock() + seconds(query.get("for", DEFAULT_FOR))
            self._by_logger[logger] = _Changed(query["level"], until)

    def requests(self) -> Iterator[str]:
        """The same requests, for the time that is left."""
        now = self._clock()
        for logger, one in self._by_logger.items():
            if one.until > now:
                query = {"level": one.level, "logger": logger, "for": f"{int((one.until - now) * 1000) + 1}ms"}
                yield f"{PATH}?{urlencode(query)}"
