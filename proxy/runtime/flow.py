"""Back-pressure of a connection: which of its two sides is not read, and until when; and when its peers last moved."""

from __future__ import annotations

import asyncio
from typing import Protocol

from kafka_sidecar.proxy.relay.memory_budget import Account
from kafka_sidecar.proxy.runtime.side import Side

MIN_BYTES = 1 << 20  # more than relayed frames leave in a transport


class Unsent:
    """What waits in the transport of one client that reads slowly, on its connection's account."""

    __slots__ = ("_account", "_bytes")

    def __init__(self, account: Account) -> None:
        self._account = account
        self._bytes = 0

    @property
    def bytes(self) -> int:
        """How much waits, of that which counts."""
        return self._bytes

    def hold(self, transport: asyncio.Transport | None) -> None:
        """The client reads slowly: all that is written so far waits. To be called again once more is written."""
        size = transport.get_write_buffer_size() if transport is not None else 0
        if size >= MIN_BYTES and size > self._bytes:
            self._account.add(size - self._bytes)
            self._bytes = size

    def release(self) -> None:
        """The client has read, or has gone."""
        if self._bytes:
            self._account.release(self._bytes)
            self._bytes = 0


class Flow:
    """As `relay.memory_budget.Owner` of the connection's account."""

    __slots__ = ("_client", "_is_slow", "_unsent", "account", "broker")

    def __init__(self, account: Account, client: Side) -> None:
        self.account = account
        self._client = client
        self._unsent = Unsent(account)
        self._is_slow = False
        self.broker: Side | None = None  # once it is connected
        account.owner = self

    @property
    def unsent(self) -> int:
        """Bytes of the budget that a client holds which reads slowly."""
        return self._unsent.bytes

    @property
    def client_progress(self) -> int:
        """Grows as the client reads a response that was written whole."""
        transport = self._client.transport
        return -transport.get_write_buffer_size() if transport is not None else 0

    def client_is_slow(self) -> None:
        # The client too is no longer read: its requests could make answers of our own without end.
        self._is_slow = True
        self.pause("the client reads slowly")
        self._unsent.hold(self._client.transport)

    def has_written(self) -> None:
        """All pieces of a response are written: the client may have been slow from the first one on."""
        if self._is_slow:
            self._unsent.hold(self._client.transport)

    def client_reads_again(self) -> None:
        self._is_slow = False
        self._unsent.release()
        self.resume("the client reads slowly")

    def pause_for_memory(self) -> None:
        self.pause("connections.max_buffered")

    def resume_after_memory(self) -> None:
        self.resume("connections.max_buffered")

    def pause_for_turn(self) -> None:
        self.pause("others have a turn")
        asyncio.get_running_loop().call_soon(self._resume_after_turn)

    def end(self) -> None:
        """A side has ended."""
        if self._client.transport is None:
            self._is_slow = False
        self._unsent.release()

    def _resume_after_turn(self) -> None:
        self.account.renew_turn()
        self.resume("others have a turn")

    def pause(self, reason: str) -> None:
        """Read of neither side."""
        self._client.pause(reason)
        if self.broker is not None:
            self.broker.pause(reason)

    def resume(self, reason: str) -> None:
        self._client.resume(reason)
        if self.broker is not None:
            self.broker.resume(reason)


class Muting:
    """The client is not read for some time, for a rate limit; nothing that comes for it waits."""

    __slots__ = ("_client", "_reason", "_timer")

    def __init__(self, client: Side) -> None:
        self._client = client
        self._reason: str | None = None  # as the admin port shows it
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_on(self) -> bool:
        return self._timer is not None

    def begin(self, seconds: float, limit: str) -> None:
        """Mute the client from now on, also where it is muted."""
        reason, before = f"rate limit {limit}", self._reason
        self._client.pause(reason)
        if before not in (None, reason):
            self._client.resume(before)
        self._reason = reason
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, self._over)

    def end(self) -> None:
        """The connection ends."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def stop(self) -> None:
        """Read the client again now."""
        self.end()
        self._over()

    def _over(self) -> None:
        self._timer = None
        if (reason := self._reason) is not None:
            self._reason = None
            self._client.resume(reason)


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
