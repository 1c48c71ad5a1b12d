"""Sends the events of the outbox to the audit topic; a file keeps what a stop leaves."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol

from kafka_sidecar.audit.outbox import Pending
from kafka_sidecar.proxy.runtime import sending
from kafka_sidecar.proxy.security.private_files import replace_file

log = logging.getLogger(__name__)

MAX_EVENTS, MAX_BYTES = 500, 1 << 20  # that are sent at a time
WRITER_MODULE = "kafka_sidecar.proxy.features.auditing.kafka_topic"


class Writer(sending.Writer[Pending], Protocol):
    """The audit topic."""

    @property
    def too_large(self) -> int:
        """Events that the topic does not accept because of their size."""
        ...


class Events(Protocol):
    """What is to be sent."""

    def take(self, max_events: int, max_bytes: int) -> list[Pending]: ...


class _Events:
    """Events as a `Source`: what is taken is kept by the sender alone."""

    def __init__(self, outbox: Events) -> None:
        self._outbox = outbox

    async def take(self) -> list[Pending]:
        return self._outbox.take(MAX_EVENTS, MAX_BYTES)

    async def written(self) -> None:
        """There is nothing to do."""


class _Lines:
    def not_sent(self, detail: str) -> None:
        log.warning("audit events not sent, they are buffered", extra={"detail": detail})

    def sent_again(self) -> None:
        log.info("audit events are sent again")

    def crashed(self, error: Exception) -> None:
        log.error("audit sender crashed: this is a bug", exc_info=error)


class Sender(sending.Sender[Pending]):
    """The sender of events, in order, and again until Kafka has them."""

    def __init__(self, outbox: Events, writer: Callable[[], Writer]) -> None:
        super().__init__(_Events(outbox), writer, _Lines(), "send audit events", imports=WRITER_MODULE)
        self._outbox = outbox
        self._done = 0

    @property
    def sent(self) -> int:
        """Events that Kafka has."""
        return self._done - self.too_large

    @property
    def too_large(self) -> int:
        writer: Writer | None = self._writer  # type: ignore[assignment] # as `__init__` was given
        return writer.too_large if writer is not None else 0

    def wrote(self, items: int) -> None:
        self._done += items

    async def finish(self, within_s: float) -> list[Pending]:
        """Stop once all events are sent, or after that time; those that are not sent."""
        unsent = await super().finish(within_s)
        while more := self._outbox.take(MAX_EVENTS, MAX_BYTES):
            unsent += more
        return unsent


class Spool:
    """A file of events, from a stop without Kafka to the next start: one event a line, as it is sent."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.events = self.bytes = 0  # that the file had when it was read, until it is removed
        self.saved_at = 0.0  # seconds since 1970

    def load(self) -> list[bytes]:
        """The events in the file; none if it does not exist or is unreadable, which is logged."""
        try:
            data = self._path.read_bytes()
            self.saved_at = self._path.stat().st_mtime
            found = data.splitlines()
            self.events, self.bytes = len(found), len(data)
            return found
        except FileNotFoundError:
            return []
        except OSError as error:
            log.warning("audit spool unreadable", extra={"detail": self._detail(error)})
            return []

    def save(self, events: Iterable[bytes]) -> bool:
        """Replace the file atomically; False if it cannot be written, which is logged."""
        try:
            replace_file(self._path, (event + b"\n" for event in events), is_synced=True)
        except OSError as error:
            log.error("audit spool not written", extra={"detail": self._detail(error)})
            return False
        return True

    def remove(self) -> None:
        """Its events are sent. A file that stays is sent again: an event that arrives twice counts once."""
        self.events = self.bytes = 0
        try:
            self._path.unlink(missing_ok=True)
        except OSError as error:
            log.warning("audit spool not removed", extra={"detail": self._detail(error)})

    def _detail(self, error: OSError) -> str:
        return f"{self._path}: {error.strerror or error}"
