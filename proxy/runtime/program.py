"""What every process of the sidecar does: an event loop, signals that stop it, one line once it serves."""

from __future__ import annotations

import asyncio
import logging
import signal
from pathlib import Path

from kafka_sidecar import __version__
from kafka_sidecar.codec import compiled
from kafka_sidecar.proxy.config.loading import Config

log = logging.getLogger("kafka_sidecar")


def runner() -> asyncio.Runner:
    """A runner with uvloop if it is installed, else with asyncio's own loop."""
    try:
        import uvloop
    except ImportError:
        return asyncio.Runner()
    return asyncio.Runner(loop_factory=uvloop.new_event_loop)


class Stop:
    """The first signal begins the drain, a second one ends it."""

    def __init__(self) -> None:
        self.drain = asyncio.Event()
        self.hurry = asyncio.Event()

    def on_signals(self) -> None:
        """Take SIGTERM and SIGINT from now on."""
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self._signalled, number)

    def _signalled(self, number: signal.Signals) -> None:
        log.info("stopping", extra={"signal": number.name})
        (self.hurry if self.drain.is_set() else self.drain).set()


def log_serving(config: Config, path: Path | None, admin_address: str, workers: int | None = None) -> None:
    """Clients and the admin port are served."""
    log.info(
        "serving",
        extra={
            "address": config.listen,
            "admin": admin_address,
            "bootstrap_servers": config.bootstrap_servers,
            "build": compiled.in_use(),
            "config": str(path) if path else None,
            "version": __version__,
            "workers": workers,
        },
    )


def warn_if_slow() -> None:
    """Installing without a C compiler succeeds, and nothing else says that it gives the slow build."""
    if (build := compiled.in_use()) != "compiled":
        detail = "policies and interceptors need ten to thirty times the CPU: install with a C compiler"
        log.warning("loops over records not compiled", extra={"build": build, "detail": detail})
