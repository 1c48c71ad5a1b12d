"""How many connections are accepted, in all and from one address (Kafka: max.connections, max.connections.per.ip)."""

from __future__ import annotations

import resource
from collections import Counter

from kafka_sidecar.proxy.relay.exchange import Closing

FILES_PER_CONNECTION = 2  # the client's socket and the broker's
SPARE_FILES = 100  # for listeners, the admin port, the sidecar's own connections, files


def raise_file_limit() -> None:
    """Allow this process as many open files as it may allow itself."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def connections_that_fit() -> int:
    """How many connections the limit of open files has room for."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(1, (soft - SPARE_FILES) // FILES_PER_CONNECTION) if soft != resource.RLIM_INFINITY else 1 << 30


class Admission:
    """Counts open connections. `enter` for each that is accepted, `leave` once it has ended."""

    def __init__(self, max_connections: int, max_per_ip: int | None) -> None:
        self._max = max_connections
        self._max_per_ip = max_per_ip
        self._open = 0
        self._by_ip: Counter[str] = Counter()

    def enter(self, ip: str) -> Closing | None:
        """Why the connection must be closed, if there are too many."""
        self._open += 1
        self._by_ip[ip] += 1
        if self._open > self._max:
            return Closing("too_many_connections", f"{self._max} connections are open (connections.max_connections)")
        if self._max_per_ip is not None and self._by_ip[ip] > self._max_per_ip:
            limit = f"{self._max_per_ip} connections of {ip} are open (connections.max_connections_per_ip)"
            return Closing("too_many_connections", limit)
        return None

    def leave(self, ip: str) -> None:
        self._open -= 1
        self._by_ip[ip] -= 1
        if not self._by_ip[ip]:
            del self._by_ip[ip]
