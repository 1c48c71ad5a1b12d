"""What a client of a run is given."""

from __future__ import annotations

from dataclasses import dataclass

from integration.scenarios.security import Security
from integration.together.model import Isolation
from integration.together.records import Library


@dataclass(frozen=True, slots=True)
class Connection:
    """Where a client connects, and to which topic."""

    bootstrap: str
    topic: str
    security: Security
    denied: str | None = None  # a topic that it names in the same requests, and must not get

    def named(self, name: str) -> str:
        """A client id, group or transactional id that no other client has."""
        return f"{self.topic}-{name}"


@dataclass(frozen=True, slots=True)
class Reading:
    """One consumer: what it is, and how far it reads."""

    name: str
    library: Library
    isolation: Isolation
    fetch_bytes: int = 1 << 20  # of a partition in one response
    is_group: bool = False  # it commits half-way, and another consumer goes on


LIMIT_S = 40.0
