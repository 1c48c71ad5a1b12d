"""Messages for which memory has no room, in files without a name (``large_messages.spill``)."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from kafka_sidecar.codec.wire import Buffer
from kafka_sidecar.large_messages.reading import READ_BYTES
from kafka_sidecar.large_messages.stored_assembly import Store
from kafka_sidecar.proxy.relay.memory_budget import Account
from kafka_sidecar.proxy.runtime.threads import Threads
from kafka_sidecar.proxy.runtime.unlinked_file import UnlinkedFile
from kafka_sidecar.proxy.telemetry.log_limiter import LogLimiter

log = logging.getLogger(__name__)

MIN_BYTES = 1 << 20  # of a message: smaller ones wait for memory
MEMORY_PART = 2  # of the budget, for messages: the rest is for responses of brokers, without which none is written
RESPONSE_PART = 32  # of the budget: a broker's response while it is looked into
READ_PART = 64  # of the budget: a response to a read of our own
MIN_RESPONSE_BYTES, MIN_READ_BYTES = 1 << 20, 256 << 10
NO_SPACE_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT})
FULL, NO_SPACE, FAILED = (
    "max_bytes",
    "no_space",
    "failed",
)  # label values of kafka_sidecar_large_messages_spill_waits_total


@dataclass(slots=True)
class SpillStats:
    """The counters of one process."""

    lines: LogLimiter
    messages: int = 0  # that were written to files
    bytes: int = 0  # of their values
    held: int = 0  # bytes of the files that there are
    waits: Counter[str] = field(default_factory=Counter)  # messages that wait for memory all the same, by reason

    def wait(self, reason: str, detail: str) -> None:
        """A message for which neither memory nor the folder has room."""
        self.waits[reason] += 1
        if (suppressed := self.lines.due(("spill", reason))) is not None:
            log.warning(
                "large messages wait for memory", extra={"reason": reason, "detail": detail, "suppressed": suppressed}
            )

    def failed(self, error: OSError) -> None:
        """The same, for what the file system says: with room that it cannot reserve, a disk is full at any write."""
        self.wait(NO_SPACE if error.errno in NO_SPACE_ERRORS else FAILED, str(error))


class Spill:
    """The folder as it is configured. Files of one that was configured before are held as long as they are needed."""

    def __init__(self, folder: Path, max_bytes: int, stats: SpillStats, threads: Threads) -> None:
        """``max_bytes``: of all files that this process holds."""
        self.folder = folder
        self.max_bytes = max_bytes
        self.stats = stats
        self._threads = threads  # in which files are closed: that takes long while they have bytes

    def store(self, account: Account, size: int) -> Store | None:
        """A store for a message of ``size`` bytes; None: memory has room, or it waits for memory."""
        budget, copies = account.budget, 2 * size
        if size < MIN_BYTES or budget.spent + copies <= budget.limit // MEMORY_PART:
            return None
        if self.stats.held + size > self.max_bytes:
            self.stats.wait(FULL, f"{self.folder}: {self.stats.held} bytes of large_messages.spill.max_bytes are used")
            return None
        self.stats.held += size
        close = partial(self._let_go, asyncio.get_running_loop(), size)
        return FileStore(
            UnlinkedFile(self.folder, size, close),
            self.stats,
            min(max(budget.limit // READ_PART, MIN_READ_BYTES), READ_BYTES),
        )

    def _let_go(self, loop: asyncio.AbstractEventLoop, size: int, fds: list[int]) -> None:
        """Called where the last reference is dropped, in whatever thread."""
        try:
            loop.call_soon_threadsafe(self._close, size, fds)
        except RuntimeError:  # the loop has ended
            _close_all(fds)

    def _close(self, size: int, fds: list[int]) -> None:
        self.stats.held -= size
        if fds:
            self._threads.submit(("close", fds[0]), partial(_close_all, fds), is_light=True)


class FileStore(Store):
    """The file of one message."""

    __slots__ = ("_file", "_stats", "read_bytes")

    def __init__(self, file: UnlinkedFile, stats: SpillStats, read_bytes: int) -> None:
        self._file = file
        self._stats = stats
        self.read_bytes = read_bytes

    def open(self) -> bool:
        try:
            self._file.open()
        except OSError as error:
            self._stats.failed(error)
            return False
        self._stats.messages += 1
        self._stats.bytes += self._file.size
        return True

    def write(self, at: int, data: Buffer) -> bool:
        try:
            self._file.write(at, data)
        except OSError as error:
            self._stats.failed(error)
            return False
        return True

    @property
    def value(self) -> Buffer:
        return self._file.view


def max_response(account: Account) -> int:
    """Bytes of a response of the broker that is looked into, so that those of many clients have room."""
    return max(account.budget.limit // RESPONSE_PART, MIN_RESPONSE_BYTES)


def _close_all(fds: list[int]) -> None:
    for fd in fds:
        os.close(fd)
