"""Audit events in a file, from a stop without Kafka to the next start: one event a line, as it is sent."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from pathlib import Path

log = logging.getLogger(__name__)


def load(path: Path) -> list[bytes]:
    """The events in the file; none if it does not exist or is unreadable, which is logged."""
    try:
        return path.read_bytes().splitlines()
    except FileNotFoundError:
        return []
    except OSError as error:
        log.warning("audit spool unreadable", extra={"detail": f"{path}: {error.strerror or error}"})
        return []


def save(path: Path, events: Iterable[bytes]) -> bool:
    """Replace the file atomically; False if it cannot be written, which is logged."""
    part = path.with_name(path.name + ".part")
    try:
        with part.open("wb") as file:
            file.writelines(event + b"\n" for event in events)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        log.error("audit spool not written", extra={"detail": f"{path}: {error.strerror or error}"})
        return False
    return True


def remove(path: Path) -> None:
    """Its events are sent. A file that stays is sent again: an event that arrives twice counts once."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        log.warning("audit spool not removed", extra={"detail": f"{path}: {error.strerror or error}"})
