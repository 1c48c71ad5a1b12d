"""The process that supervises workers: signals, the admin port, exit."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.config.mistakes import ConfigError
from kafka_sidecar.proxy.config.types import host_port
from kafka_sidecar.proxy.config.workers import shared_memory
from kafka_sidecar.proxy.runtime.admission import check_free
from kafka_sidecar.proxy.runtime.program import Stop, log_serving, warn_if_slow
from kafka_sidecar.proxy.security.tls.live_tls import TlsSides
from kafka_sidecar.proxy.server.admin.http import serve_admin
from kafka_sidecar.proxy.server.workers.pages import WorkerPages
from kafka_sidecar.proxy.server.workers.supervisor import Supervisor, WorkerFailedError, WorkerProcess
from kafka_sidecar.proxy.telemetry.log_limiter import LogRate

log = logging.getLogger("kafka_sidecar")


async def supervise(config: Config, path: Path | None, flags: Mapping[str, object], rate: LogRate) -> int:
    """Run the workers until their drain has ended; the exit code. Raises ConfigError."""
    _check(config)
    stopping = Stop()
    stopping.on_signals()
    supervisor = Supervisor(config, path, flags, WorkerProcess.launch, shared=shared_memory())
    warn_if_slow()
    admin, address = serve_admin(WorkerPages(supervisor, rate), config, TlsSides(config).admin)
    try:
        return await _run(supervisor, stopping, lambda: log_serving(config, path, address, len(supervisor.workers)))
    except WorkerFailedError as error:
        log.error("workers not started", extra={"detail": str(error)})
        return 1
    finally:
        admin.close()


async def _run(supervisor: Supervisor, stopping: Stop, on_serving: Callable[[], None]) -> int:
    """From the start of the workers to the end of their drain."""
    starting = asyncio.ensure_future(supervisor.start())
    if await _before(stopping.drain, starting):
        starting.result()  # raises its failure
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, supervisor.hang_up)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})  # see cli/entry.py
        on_serving()
        await stopping.drain.wait()
    starting.cancel()
    draining = asyncio.ensure_future(supervisor.drain())
    if not await _before(stopping.hurry, draining):
        await supervisor.drain(hurry=True)
    await draining
    log.info("stopped")
    return 0


async def _before(event: asyncio.Event, work: asyncio.Future[None]) -> bool:
    """Whether the work has ended before the event."""
    waiting = asyncio.ensure_future(event.wait())
    both: list[asyncio.Future[Any]] = [work, waiting]
    await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    return work.done()


def _check(config: Config) -> None:
    """Raises ConfigError for what no worker finds out: they share the port."""
    if sys.platform != "linux":
        raise ConfigError(
            f"workers: {config.workers} needs Linux, which spreads the connections to one port over several processes; "
            "here set workers: 1"
        )
    host, port = host_port(config.listen)
    try:
        check_free(host, port)
    except OSError as error:
        raise ConfigError(
            f"listen: {config.listen} cannot be bound: {error.strerror or error}; choose another"
        ) from error
