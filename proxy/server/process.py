"""One process that serves clients: started, reloaded, drained (design D13)."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.config.mistakes import ConfigError
from kafka_sidecar.proxy.config.reload import FindMore, Reload
from kafka_sidecar.proxy.features.compose import find_mistakes
from kafka_sidecar.proxy.runtime.program import Stop, configure_allocator, log_serving, warn_if_slow
from kafka_sidecar.proxy.runtime.tasks import spawn
from kafka_sidecar.proxy.runtime.threads import SWITCH_INTERVAL_S
from kafka_sidecar.proxy.server.admin.http import serve_admin
from kafka_sidecar.proxy.server.admin.pages import Admin
from kafka_sidecar.proxy.server.server import Server
from kafka_sidecar.proxy.telemetry.log_limiter import LogRate
from kafka_sidecar.proxy.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from kafka_sidecar.proxy.server.admin.otlp import OtlpExport

log = logging.getLogger("kafka_sidecar")


class Process:
    """A server with what its process needs. `start` and `watch`, then `drain`."""

    def __init__(
        self, config: Config, path: Path | None, read_config: Callable[[FindMore], Config], rate: LogRate
    ) -> None:
        """Raises ConfigError."""
        self.server = Server(config, Metrics(features=[rate.families]))
        self.server.apply(config)
        self.reload = None
        if path is not None:
            features = self.server.features
            self.reload = Reload(
                path, config, read_config, self._apply, self._record_reload, features.files, features.prepare,
                find_mistakes,
            )  # fmt: skip
        self.on_applied: Callable[[Config], None] = lambda loaded: None  # after a reload
        self._watching: asyncio.Task[None] | None = None
        self._export = _otlp_export(config, self.server)

    async def start(self) -> None:
        """Serve clients. Raises ConfigError."""
        await self.server.start()
        if self._export is not None:
            self._export.start()
        configure_allocator()
        sys.setswitchinterval(SWITCH_INTERVAL_S)

    def watch(self) -> None:
        """Reload the file when it changes. SIGHUP, which by default would kill, reloads it too."""
        self._record_reload(())
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self.hang_up)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})  # see cli/entry.py
        if self.reload is not None:
            self._watching = spawn(self.reload.watch(), "watch the configuration")

    def hang_up(self) -> None:
        """Reload the file, and recover lost topic configs."""
        self.server.features.recover()
        if self.reload is not None:
            self.reload.request()

    async def end_when_unused(self, stop: asyncio.Event) -> None:
        """Set ``stop`` once the clients have gone, if it is configured."""
        limit_s = self.server.config.connections.exit_when_unused
        if limit_s is not None:
            await self.server.unused(limit_s)
            log.info("stopping", extra={"detail": f"no client for {limit_s:g} s (connections.exit_when_unused)"})
            stop.set()

    async def drain(self, hurry: asyncio.Event) -> None:
        """Stop accepting; returns once the open connections have ended."""
        if self._watching is not None:
            self._watching.cancel()
        await self.server.drain(hurry)
        if self._export is not None:
            await self._export.stop()

    def _apply(self, loaded: Config) -> None:
        self.server.apply(loaded)
        self.on_applied(loaded)

    def _record_reload(self, needs_restart: Sequence[str] | None) -> None:
        self.server.metrics.record_reload(needs_restart, time.time())


def _otlp_export(config: Config, server: Server) -> OtlpExport | None:
    """What sends metrics and spans to a collector, if one is configured. Raises ConfigError."""
    if config.otlp.endpoint is None:
        return None
    try:
        from kafka_sidecar.proxy.server.admin.exposition import all_families, registry
        from kafka_sidecar.proxy.server.admin.otlp import OtlpExport
    except ImportError as error:
        raise ConfigError(f"otlp.endpoint: {error.name} is not installed; in a clone, pip install '.[otel]'") from error
    made = registry(partial(all_families, server.metrics))
    export = OtlpExport(config.otlp, made.collect, f"{socket.gethostname()}:{os.getpid()}")
    server.record_requests = export.tracing.recorder if export.tracing is not None else None
    return export


async def serve(config: Config, path: Path | None, read_config: Callable[[FindMore], Config], rate: LogRate) -> None:
    """Run the only process of a sidecar until its drain has ended. Raises ConfigError."""
    stop = Stop()
    stop.on_signals()
    process = Process(config, path, read_config, rate)
    warn_if_slow()
    await process.start()
    admin, address = serve_admin(Admin(process.server), config, process.server.tls.admin)
    process.watch()
    log_serving(config, path, address)
    waiting = spawn(process.end_when_unused(stop.drain), "end when unused")
    await stop.drain.wait()
    waiting.cancel()
    await process.drain(stop.hurry)
    admin.close()
    log.info("stopped")
