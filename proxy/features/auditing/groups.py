"""Which consumer group a client belongs to: a Fetch does not say, other requests of the same client id and address do.

Where one client id and address belong to several groups at a time, it is not known in which of them they read.
"""

from __future__ import annotations

from collections.abc import Callable

from kafka_sidecar.audit.contract import SEVERAL_GROUPS

MAX_CLIENTS = 10_000
MAX_GROUPS = 16  # of one client id and address
KEPT_S = 60.0  # since a request named the group; members send heartbeats every few seconds

Client = tuple[str | None, str | None]  # client id, address


class Groups:
    """The groups of all clients."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock  # seconds
        self._seen: dict[Client, dict[str, float]] = {}  # when requests have named each group last
        self._groups: dict[Client, str] = {}
        self.find = self._groups.get

    def learn(self, client: Client, group: str) -> None:
        """A request of this client has named a group."""
        if not group:
            return
        now = self._clock()
        seen = self._seen.get(client)
        if seen is None:
            if len(self._seen) >= MAX_CLIENTS:
                oldest = next(iter(self._seen))
                del self._seen[oldest], self._groups[oldest]
            seen = self._seen[client] = {}
        seen[group] = now
        for other in [one for one, at in seen.items() if now - at > KEPT_S]:
            del seen[other]
        if len(seen) > MAX_GROUPS:
            del seen[next(iter(seen))]
        self._groups[client] = group if len(seen) == 1 else SEVERAL_GROUPS
