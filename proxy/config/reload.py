"""The configuration file is read anew on SIGHUP and when it changes (design D13). No connection is dropped.

Rules are exchanged as a whole. A file that is wrong is refused, and what was in force stays.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from kafka_sidecar.proxy.config.loading import Config, ConfigError

log = logging.getLogger(__name__)

LOOKED_AT_EVERY_S = 1.0
# What takes effect without a restart.
RELOADED = frozenset({"policies", "topics", "validation", "interceptors", "interception"})

Mark = tuple[int, int, int]  # changes when the file is written, or when a link to it is turned (ConfigMaps)


class Reload:
    """Keeps one sidecar at what its file says."""

    def __init__(
        self, path: Path, running: Config, load: Callable[[], Config], apply: Callable[[Config], None]
    ) -> None:
        self._path = path
        self._running = running
        self._load = load  # raises ConfigError
        self._apply = apply  # raises ConfigError
        self._mark = _mark(path)
        self._asked = asyncio.Event()

    def ask(self) -> None:
        """Read the file even if it looks as before."""
        self._asked.set()

    async def watch(self) -> None:
        """For as long as the sidecar runs."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOKED_AT_EVERY_S):
                    await self._asked.wait()
            mark = _mark(self._path)
            if mark not in (self._mark, None) or self._asked.is_set():
                self._mark = mark or self._mark
                self._asked.clear()
                self._once()

    def _once(self) -> None:
        try:
            config = self._load()
            self._put_in_force(config)
        except ConfigError as error:
            log.error("configuration rejected, the previous one stays applied", extra={"detail": str(error)})
            return
        except Exception:
            log.exception("configuration reload crashed: this is a bug")
            return
        other = sorted(
            name
            for name in Config.model_fields
            if name not in RELOADED and getattr(config, name) != getattr(self._running, name)
        )
        if other:
            log.warning("changed settings need a restart", extra={"settings": other})
        log.info("configuration applied", extra={"config": str(self._path), "topics": len(config.topics)})

    def _put_in_force(self, config: Config) -> None:
        try:
            self._apply(config)
        except ConfigError as error:
            raise ConfigError(f"{self._path}: {error}") from error


def _mark(path: Path) -> Mark | None:
    try:
        found = path.stat()
    except OSError:
        return None  # being replaced
    return found.st_mtime_ns, found.st_ino, found.st_size
