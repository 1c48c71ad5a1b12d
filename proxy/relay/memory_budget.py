"""A limit on what all connections together buffer of frames that must be whole (``connections.max_buffered``).

When it is spent, all connections that buffer are paused but the one that began first: it can finish its frame,
unless the limit is spent by responses that wait for clients which do not read. Each that finishes would add one of
these, for the next one to begin; such clients lose their connections while others wait.
Those that buffer little go on until they have spent a reserve of their own, so that large frames, however long their
clients let them wait, do not stop small ones.
As bytes are released, they are resumed in the order in which they began.

What is read of such frames in one turn of the event loop is limited too: copying it is what takes the time of others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Protocol

from kafka_sidecar.proxy.telemetry.metrics import Buffered

ROOM_BYTES = 256 << 10  # one read: a connection is resumed if that much fits
SMALL_PART = 256  # of the limit: so much is little for one connection
RESERVE_PART = 4  # of the limit: the reserve for such connections
# Buffered in one turn of the event loop: the loop reads up to 8 MB of a socket that is always full, and a copy takes
# half a millisecond a megabyte. Beyond, each connection is paused after its read.
MAX_TURN_BYTES = 8 << 20


class Owner(Protocol):
    """The connection of an account."""

    def pause_for_memory(self) -> None: ...

    def resume_after_memory(self) -> None: ...

    def pause_for_turn(self) -> None:
        """Read nothing more in this turn of the event loop; call `MemoryBudget.renew_turn` in the next one."""


class MemoryBudget:
    """What the accounts of all connections have in common."""

    def __init__(self, limit: int, buffered: Buffered) -> None:
        self.limit = limit  # bytes
        self._little = limit // SMALL_PART  # bytes
        self._reserve = limit // RESERVE_PART  # bytes, for connections that buffer little
        self._of_little = 0  # bytes that these buffer
        self._level = 0  # 1: the limit is spent; 2: the reserve too
        self._buffered = buffered
        self._accounts: dict[Account, None] = {}  # those with bytes; the one that began first is the first
        self._paused = 0  # of these
        self._unread = 0  # bytes of responses that clients do not read
        self._in_turn = 0  # bytes that were added in this turn of the event loop
        self.peak = 0  # the most that was spent since it was last set

    @property
    def spent(self) -> int:
        """Bytes."""
        return self._buffered.bytes

    @property
    def waiting(self) -> int:
        """Connections that wait for memory."""
        return self._paused

    def is_waited_for(self, holders: Collection[Account]) -> bool:
        """Whether connections wait for memory that are none of these."""
        return self._paused > 0 and any(one.is_paused and one not in holders for one in self._accounts)

    def add(self, account: Account, size: int) -> None:
        self._accounts.setdefault(account)
        self._count(account, size)
        self.peak = max(self.peak, self.spent)
        before, self._level = self._level, self._level_now()
        if self._level:
            for one in reversed(self._accounts) if self._level > before else (account,):
                self._pause(one, 0 if self._level > 1 else self._little)
        if self._level < before:  # one of those with little has much now
            self._resume_those_with_little(self._accounts)
        self._in_turn += size
        if self._in_turn >= MAX_TURN_BYTES and account.owner is not None:
            account.owner.pause_for_turn()

    def renew_turn(self) -> None:
        """Others have had their turn."""
        self._in_turn = 0

    def release(self, account: Account, size: int) -> None:
        self._count(account, -size)
        before, self._level = self._level, self._level_now()
        if not account.bytes:
            del self._accounts[account]
            self._resume(account)
        if self._paused:
            if self._level < 2:
                self._resume_those_with_little(self._accounts if before > 1 else (account,))
            self._resume_oldest()

    def hold_unread(self, account: Account, size: int) -> None:
        """So much of a response waits for a client that does not read."""
        self._unread += size
        self.add(account, size)

    def release_unread(self, account: Account, size: int) -> None:
        """The client has read it, or has gone."""
        self._unread -= size
        self.release(account, size)

    def _count(self, account: Account, size: int) -> None:
        before, after = account.bytes, account.bytes + size
        account.bytes = after
        self._buffered.bytes += size
        self._of_little += (after if after <= self._little else 0) - (before if before <= self._little else 0)

    def _level_now(self) -> int:
        return 0 if self.spent <= self.limit else 1 if self._of_little <= self._reserve else 2

    def _pause(self, account: Account, allowed: int) -> None:
        """Pause a connection that buffers more than is allowed, unless all others began later."""
        if account.is_paused or account.bytes <= allowed:
            return
        if self._unread <= self.limit and account is next(iter(self._accounts)):
            return
        account.is_paused = True
        self._paused += 1
        self._buffered.pauses += 1
        if account.owner is not None:
            account.owner.pause_for_memory()

    def _resume_those_with_little(self, accounts: Iterable[Account]) -> None:
        for account in accounts:
            if account.bytes <= self._little:
                self._resume(account)

    def _resume_oldest(self) -> None:
        room = self.limit - self.spent
        for number, account in enumerate(self._accounts):
            if room < ROOM_BYTES and (number or self._unread > self.limit):
                return
            self._resume(account)
            room -= ROOM_BYTES

    def _resume(self, account: Account) -> None:
        if account.is_paused:
            account.is_paused = False
            self._paused -= 1
            if account.owner is not None:
                account.owner.resume_after_memory()


class Account:
    """The bytes that one connection has buffered."""

    __slots__ = ("budget", "bytes", "is_paused", "owner")

    def __init__(self, budget: MemoryBudget) -> None:
        self.budget = budget
        self.bytes = 0
        self.is_paused = False
        self.owner: Owner | None = None

    def add(self, size: int) -> None:
        self.budget.add(self, size)

    def release(self, size: int) -> None:
        self.budget.release(self, size)

    def hold_unread(self, size: int) -> None:
        self.budget.hold_unread(self, size)

    def release_unread(self, size: int) -> None:
        self.budget.release_unread(self, size)

    def renew_turn(self) -> None:
        self.budget.renew_turn()
