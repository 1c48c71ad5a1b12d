"""Where log lines go: to stdout, from a level on, at a limited rate."""

from __future__ import annotations

import logging
import sys
import time

from kafka_sidecar.proxy.telemetry.log_limiter import QUOTING
from kafka_sidecar.proxy.telemetry.log_rate import LogRate
from kafka_sidecar.proxy.telemetry.text_lines import Format, formatter


def configure(level: str, max_rate: float = 100, worker: int | None = None, wanted: Format = "json") -> LogRate:
    """Write lines of ``level`` ("debug", "info", "warning", "error") and above to stdout.

    Returns the limit of ``max_rate`` lines a second, which has counted the suppressed ones. ``worker``: its number, in
    every line.
    """
    output, rate = logging.StreamHandler(sys.stdout), LogRate(max_rate, time.monotonic)
    output.setFormatter(formatter(wanted, sys.stdout))
    output.addFilter(rate)
    if worker is not None:
        output.addFilter(lambda record: record.__dict__.setdefault("worker", worker) is not None)
    logging.basicConfig(level=level.upper(), handlers=[output], force=True)
    logging.getLogger("asyncio").setLevel(logging.WARNING)
    # Of its own: a level that is changed while the sidecar runs must not make lines quote records.
    QUOTING.setLevel(logging.DEBUG if level == "debug" else logging.WARNING)
    return rate
