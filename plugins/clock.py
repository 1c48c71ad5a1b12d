"""The time of day, as plug-ins and what counts for them read it."""

from __future__ import annotations

import time


def now_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000
