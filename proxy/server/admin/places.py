"""The places of the admin port's connections: whoever comes last gets one, so a probe does, whatever others hold."""

from __future__ import annotations

from collections import Counter
from ipaddress import ip_address
from itertools import chain
from typing import Protocol

MAX_CONNECTIONS = 64
# Not of this host: from there come a sidecar's application, its port-forwards, and in some clusters the probes too.
MAX_PER_ADDRESS = 8


class Occupant(Protocol):
    """A connection."""

    ip: str

    def give_way(self) -> None:
        """End at once: another one needs the place."""


class Places:
    """Those that are taken. Where one is needed, the connection goes that has been without a request for longest, or
    if all have one the connection whose request is the oldest: probes are answered at once, other pages may wait."""

    def __init__(self) -> None:
        self._taken: dict[Occupant, None] = {}
        self._by_ip: Counter[str] = Counter()
        self._resting: dict[Occupant, None] = {}  # those without a request, the longest first
        self._working: dict[Occupant, None] = {}  # the others, the one whose request is the oldest first

    def __len__(self) -> int:
        return len(self._taken)

    def enter(self, one: Occupant) -> None:
        """Take a place. Another one may have to give way."""
        if self._by_ip[one.ip] >= MAX_PER_ADDRESS and not _is_local(one.ip):
            self._remove(next(other for other in chain(self._resting, self._working) if other.ip == one.ip))
        if len(self._taken) >= MAX_CONNECTIONS:
            self._remove(next(chain(self._resting, self._working)))
        self._taken[one] = self._resting[one] = None
        self._by_ip[one.ip] += 1

    def works(self, one: Occupant) -> None:
        """A request has come."""
        if self._resting.pop(one, one) is None:
            self._working[one] = None

    def rests(self, one: Occupant) -> None:
        """The response is written."""
        if self._working.pop(one, one) is None:
            self._resting[one] = None

    def leave(self, one: Occupant) -> None:
        """It has ended."""
        if one in self._taken:
            del self._taken[one]
            self._resting.pop(one, None)
            self._working.pop(one, None)
            self._by_ip[one.ip] -= 1
            if not self._by_ip[one.ip]:
                del self._by_ip[one.ip]

    def _remove(self, one: Occupant) -> None:
        self.leave(one)
        one.give_way()


def _is_local(ip: str) -> bool:
    try:
        return ip_address(ip).is_loopback
    except ValueError:
        return False
