"""Requests that the admin port refuses: counted, and written as log lines, without what was sent as a token."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable

from kafka_sidecar.proxy.telemetry.log_limiter import LogLimiter
from kafka_sidecar.proxy.telemetry.metrics import Family, counter

log = logging.getLogger(__name__)

LOG_INTERVAL_S = 10.0  # for one reason and address
MAX_PATH_CHARS = 249  # of what clients choose
REASONS = {401: "token", 403: "host"}  # by status


class Refusals:
    """Those of one port."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.counts: Counter[str] = Counter(dict.fromkeys(REASONS.values(), 0))
        self._lines = LogLimiter(LOG_INTERVAL_S, clock)

    def note(self, status: int, target: str, address: str) -> None:
        """A response to a request for ``target``, path and query, from an address."""
        if (reason := REASONS.get(status)) is None:
            return
        self.counts[reason] += 1
        if (suppressed := self._lines.due(("admin request refused", reason, address))) is not None:
            path = target.partition("?")[0][:MAX_PATH_CHARS]
            log.warning(
                "admin request refused",
                extra={"reason": reason, "detail": path, "client": address, "suppressed": suppressed},
            )

    def families(self) -> Iterable[Family]:
        """Their metric."""
        return [counter("admin_requests_refused", "Requests that the admin port refused", dict(self.counts), "reason")]
