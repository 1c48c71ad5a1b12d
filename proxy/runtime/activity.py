"""When the peers of a connection last sent or read something, at the resolution of the looks at it."""

from __future__ import annotations

from typing import Protocol

from kafka_sidecar.proxy.runtime.flow import Flow


class Counts(Protocol):
    """A connection that counts bytes."""

    bytes_from_client: int
    bytes_from_broker: int
    flow: Flow

    @property
    def client_is_paused(self) -> bool: ...

    @property
    def broker_is_paused(self) -> bool: ...


class Activity:
    """Compares the counts of a connection with those of the last look."""

    __slots__ = ("_bytes_from_broker", "_bytes_from_client", "_client_progress", "_moved_at", "broker_at", "client_at")

    def __init__(self, now: float) -> None:
        self._bytes_from_client = self._bytes_from_broker = self._client_progress = 0
        self._moved_at = now
        self.client_at = self.broker_at = now  # when each last sent something, or was not read

    def quiet_s(self, counts: Counts, now: float) -> float:
        """For how long neither has sent a byte, nor the client read one of those that wait for it."""
        if (progress := counts.flow.client_progress) != self._client_progress:
            self._client_progress = progress
            self._moved_at = now
        if counts.bytes_from_client != self._bytes_from_client:
            self._bytes_from_client = counts.bytes_from_client
            self._moved_at = self.client_at = now
        elif counts.client_is_paused:
            self.client_at = now
        if counts.bytes_from_broker != self._bytes_from_broker:
            self._bytes_from_broker = counts.bytes_from_broker
            self._moved_at = self.broker_at = now
        elif counts.broker_is_paused:
            self.broker_at = now
        return now - self._moved_at
