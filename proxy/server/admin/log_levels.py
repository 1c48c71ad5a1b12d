"""Levels of loggers that are changed while the sidecar runs, each for a limited time.

Lines never quote more of a record than the configured `log.level` allows.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

from kafka_sidecar.plugins.units import seconds
from kafka_sidecar.proxy.config.types import Level
from kafka_sidecar.proxy.telemetry.log_limiter import QUOTING
from kafka_sidecar.proxy.telemetry.logs import timestamp

log = logging.getLogger(__name__)

ROOT = "root"
DEFAULT = "default"  # in place of a level: the configured one again
DEFAULT_FOR, MAX_FOR_S = "10m", 86_400.0
LEVELS = get_args(Level)


class LevelError(ValueError):
    """A request that is wrong; the text has the remedy."""


@dataclass(frozen=True, slots=True)
class _Changed:
    before: int
    until: float  # seconds since the epoch
    expiry: asyncio.TimerHandle


class LogLevels:
    """The loggers of one process. Belongs to its event loop."""

    def __init__(self) -> None:
        self._changed: dict[str, _Changed] = {}

    def show(self) -> dict[str, Any]:
        """The level of all loggers, and of those that have another one for now."""
        loggers = {
            name: {"level": _level_of(name), "until": timestamp(one.until), "then": _name_of(one.before)}
            for name, one in sorted(self._changed.items())
        }
        return {"level": _level_of(ROOT), "loggers": loggers}

    def change(self, query: Mapping[str, str]) -> dict[str, Any]:
        """Set the level of a logger and of those below it. Raises LevelError."""
        name, level, for_s = _read(query)
        limit = f" for {for_s:g} s" if level != DEFAULT else ""
        is_written = log.isEnabledFor(logging.WARNING)
        if is_written:  # before: nothing may be written after it
            _log_change(f"{name}: {level}{limit}")
        self._restore(name)
        if level != DEFAULT:
            logger, until = _logger(name), time.time() + for_s
            expiry = asyncio.get_running_loop().call_later(for_s, self._expire, name)
            self._changed[name] = _Changed(logger.level, until, expiry)
            logger.setLevel(level.upper())
        if not is_written:
            _log_change(f"{name}: {level}{limit}")
        return self.show()

    def _expire(self, name: str) -> None:
        self._restore(name)
        _log_change(f"{name}: as it was")

    def _restore(self, name: str) -> None:
        if (one := self._changed.pop(name, None)) is not None:
            one.expiry.cancel()
            _logger(name).setLevel(one.before)


def _log_change(what: str) -> None:
    log.warning("log level changed", extra={"detail": what})


def _read(query: Mapping[str, str]) -> tuple[str, str, float]:
    """Logger, level and for how many seconds."""
    if unknown := query.keys() - {"level", "logger", "for"}:
        raise LevelError(f"{', '.join(sorted(unknown))}: is no parameter; write level, logger and for")
    level, name = query.get("level", ""), query.get("logger", ROOT)
    if level not in (*LEVELS, DEFAULT):
        raise LevelError(f"level: write {', '.join(LEVELS)}, or {DEFAULT} for the configured level")
    if name != ROOT and (name not in logging.root.manager.loggerDict or name == QUOTING.name):
        raise LevelError(f"logger: {name!r} is none; write one that log lines name, such as {__package__}, or {ROOT}")
    try:
        for_s = seconds(query.get("for", DEFAULT_FOR))
    except ValueError as error:
        raise LevelError(f"for: {error}") from error
    if not 0 < for_s <= MAX_FOR_S:
        raise LevelError("for: write a time of up to 24h, such as 10m: nothing stays at another level for longer")
    return name, level, for_s


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(None if name == ROOT else name)


def _level_of(name: str) -> str:
    return _name_of(_logger(name).getEffectiveLevel())


def _name_of(level: int) -> str:
    """A level by its name; `default` where the logger has that of the one above it."""
    return logging.getLevelName(level).lower() if level else DEFAULT
