"""What could not be counted."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass, field

log = logging.getLogger(__name__)


@dataclass(slots=True)
class AuditingStats:
    """Counters of one process."""

    uncounted: Counter[tuple[str, str]] = field(default_factory=Counter)  # frames, by API and reason
    unnamed: int = 0  # batches of topics whose name is not known

    def unreadable(self, api: str) -> None:
        """A frame is not what its header says. It is relayed: the broker or the client rejects it."""
        self.uncounted[api, "unreadable"] += 1

    def failed(self, api: str, error: Exception) -> None:
        """The auditor has raised an exception; the first one is logged."""
        if not self.uncounted[api, "auditor_failed"]:
            log.error("auditor failed", exc_info=error)
        self.uncounted[api, "auditor_failed"] += 1
