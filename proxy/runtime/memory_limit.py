"""How much the sidecar may buffer where its container has a memory limit: the kernel kills it above that."""

from __future__ import annotations

import logging
from pathlib import Path

log = logging.getLogger(__name__)

MAX_BUFFERED_BYTES, MIN_BUFFERED_BYTES = 256 << 20, 1 << 20
IDLE_BYTES = 64 << 20  # of each process
FILES = ("memory.max", "memory/memory.limit_in_bytes")  # of cgroup v2 and v1, as a container sees its own


def default_max_buffered(processes: int, root: Path = Path("/sys/fs/cgroup")) -> int:
    """The default of ``connections.max_buffered`` in bytes: half of what the container's limit leaves, at most 256 MiB.

    The other half is for what is made of buffered frames: decompressed, changed and written again.
    """
    room = _room(processes, root)
    return MAX_BUFFERED_BYTES if room is None else max(MIN_BUFFERED_BYTES, min(MAX_BUFFERED_BYTES, room // 2))


def warn_if_too_large(max_buffered: int | None, processes: int, root: Path = Path("/sys/fs/cgroup")) -> None:
    """``max_buffered``: as configured, in bytes; None if it is not."""
    room = _room(processes, root)
    if max_buffered is not None and room is not None and max_buffered > room:
        detail = (
            f"{max_buffered >> 20} MiB, and the container's limit leaves {max(0, room) >> 20} MiB: lower it, or raise"
        )
        log.warning("connections.max_buffered above the memory limit", extra={"detail": f"{detail} the limit"})


def _room(processes: int, root: Path) -> int | None:
    """Bytes that the limit leaves above the idle processes; None without a limit."""
    for name in FILES:
        try:
            limit = int((root / name).read_text())
        except (OSError, ValueError):  # "max"
            continue
        return limit - processes * IDLE_BYTES
    return None
