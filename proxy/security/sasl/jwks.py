"""The keys with which tokens are signed (RFC 7517): from a file, or from an endpoint that is asked again at times."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from pathlib import Path

from kafka_sidecar.outbound.jwks import Key, KeyEndpoint, KeysError, read_keys
from kafka_sidecar.proxy.config.reload import state_of

log = logging.getLogger(__name__)

UNKNOWN_KEY_S = 60.0  # between two requests because of keys that are not known, as Kafka's brokers pause


class FileKeys:
    """Those of a file, read when it changes; where it cannot be used, the previous ones stay."""

    def __init__(self, path: Path) -> None:
        """Raises KeysError."""
        self._path = path
        self._seen = state_of(path)
        self._keys = read_keys(path)
        self._is_current = True

    @property
    def are_current(self) -> bool:
        """Whether the keys that are in the file now apply."""
        self.current()
        return self._is_current

    def current(self) -> tuple[Key, ...]:
        if (seen := state_of(self._path)) != self._seen and seen is not None:
            self._seen = seen
            self._is_current = False
            try:
                self._keys = read_keys(self._path)
                self._is_current = True
                log.info("token keys applied", extra={"detail": str(self._path)})
            except KeysError as error:
                log.error("token keys rejected, the previous ones stay applied", extra={"detail": str(error)})
        return self._keys

    def is_due(self, key_id: str | None) -> bool:
        """Whether `refresh` may find keys that `current` does not have."""
        return False

    async def refresh(self) -> None:
        return


class EndpointKeys(KeyEndpoint):
    """Those of an endpoint. No client waits for one that only is old."""

    def __init__(
        self, url: str, refresh_s: float, fetch: Callable[[str], bytes] | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        super().__init__(url, refresh_s, fetch, now, pause_s=UNKNOWN_KEY_S)
        self._refreshing: asyncio.Task[None] | None = None  # in the background

    def current(self) -> tuple[Key, ...]:
        """The keys as they are known. Where they are old, they are asked for in the background."""
        if self.is_old and (self._refreshing is None or self._refreshing.done()):
            self._refreshing = asyncio.get_running_loop().create_task(self.refresh(), name="ask for the keys of tokens")
        return self.known

    def report(self, failure: str) -> None:
        log.error("token keys not refreshed, the previous ones stay applied", extra={"detail": failure})
