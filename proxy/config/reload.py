"""Reload of the configuration file, on SIGHUP and when it changes (design D13). No connection is dropped.

Rules are replaced as a whole. An invalid file is rejected, and the previous configuration stays applied.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.config.mistakes import ConfigError, Mistake

log = logging.getLogger(__name__)

POLL_INTERVAL_S = 1.0
# Sections that take effect without a restart; all others need one, except for those that the proxy does not use.
RELOADED = frozenset(
    {
        "authorization", "schema_registries", "policies", "topics", "validation", "interceptors", "interception",
        "large_messages", "limits", "rate_limits", "topic_guards", "dead_letters", "producers",
        "tap",
    }
)  # fmt: skip
UNUSED = frozenset({"pipeline"})

MISSING_POLLS = 3  # a file that is being replaced may be absent for a moment

FindMore = Callable[[Config], Iterable[Mistake]]
FileState = tuple[int, int, int]  # differs after a write, and after a symbolic link is replaced (ConfigMaps)


class Reload:
    """Applies changes of the configuration file to a running sidecar."""

    def __init__(
        self,
        path: Path,
        running: Config,
        load: Callable[[FindMore], Config],
        apply: Callable[[Config], None],
        report: Callable[[Sequence[str] | None], None],
        files: Callable[[], Iterable[Path]] = tuple,
        prepare: Callable[[Config], None] = lambda config: None,
        find_more: FindMore = lambda config: (),
    ) -> None:
        self._path = path
        self._running = self._applied = running
        self._load = load  # raises ConfigError; what is found more is wrong too
        self._prepare = prepare  # in a thread, what takes long and changes nothing; raises ConfigError
        self._find_more = find_more  # in plug-ins, which are loaded for that
        self._apply = apply  # raises ConfigError
        self._report = report  # after each reload: the sections that need a restart; None if the file was rejected
        self._missing = 0  # polls since the file was there
        self._files = files  # others that what is applied was loaded from
        self._state = state_of(path)
        self._read = self._state_of_files()
        self._requested = asyncio.Event()

    def request(self) -> None:
        """Reload even if the file seems unchanged."""
        self._requested.set()

    async def watch(self) -> None:
        """Poll the file until cancelled."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL_INTERVAL_S):
                    await self._requested.wait()
            state = state_of(self._path)
            self._missing = 0 if state else self._missing + 1
            if self._missing == MISSING_POLLS:
                log.warning("configuration file missing, it stays applied", extra={"config": str(self._path)})
            read = self._state_of_files()
            if state not in (self._state, None) or read != self._read or self._requested.is_set():
                self._state = state or self._state
                self._requested.clear()
                self._report(await self._reload())
                # Of what is applied now. A file that made it be rejected is read again once it has changed.
                self._read = {path: read.get(path, state) for path, state in self._state_of_files().items()}

    def _state_of_files(self) -> dict[Path, FileState | None]:
        return {path: state_of(path) for path in self._files()}

    async def _reload(self) -> list[str] | None:
        """The sections that have changed and need a restart; None if the file is rejected."""
        try:
            config = await self._load_beside()
            changed, pending = await asyncio.to_thread(self._compare, config)
            self._apply(config)
            self._applied = config
        except ConfigError as error:
            log.error("configuration rejected, the previous one stays applied", extra={"detail": str(error)})
            return None
        except Exception:
            log.exception("configuration reload crashed: this is a bug")
            return None
        if pending:
            log.warning("changed settings need a restart", extra={"settings": pending})
        log.info(
            "configuration applied", extra={"config": str(self._path), "topics": len(config.topics), "changed": changed}
        )
        return pending

    async def _load_beside(self) -> Config:
        """The file as it is, read and prepared while clients are served: thousands of entries take seconds."""
        try:
            config = await asyncio.to_thread(self._load, lambda config: ())
        except ConfigError:  # in this thread: no other one may import while plug-ins are loaded (decision 13)
            return self._load(self._find_more)
        await asyncio.to_thread(self._prepare, config)
        return config

    def _compare(self, config: Config) -> tuple[list[str], list[str]]:
        """The sections that are reloaded and differ from what is applied, and those that need a restart for it."""
        changed = sorted(name for name in RELOADED if getattr(config, name) != getattr(self._applied, name))
        others = Config.model_fields.keys() - RELOADED - UNUSED
        pending = sorted(name for name in others if getattr(config, name) != getattr(self._running, name))
        return changed, pending


def with_reloaded(running: Config, loaded: Config) -> Config:
    """What applies once a configuration is reloaded: the rest needs a restart."""
    return running.model_copy(update={name: getattr(loaded, name) for name in RELOADED})


def state_of(path: Path) -> FileState | None:
    """What differs after a file was replaced; None while it is absent."""
    try:
        found = path.stat()
    except OSError:
        return None  # the file is being replaced
    return found.st_mtime_ns, found.st_ino, found.st_size
