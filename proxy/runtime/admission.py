"""Limits of what is accepted: listening sockets, connections in all and from one address, buffered bytes.

Kafka's names: max.connections, max.connections.per.ip. The kernel kills a container that takes more than its memory
limit, so the default of what may be buffered follows from that limit.
"""

from __future__ import annotations

import logging
import resource
import socket
from collections import Counter
from pathlib import Path

from kafka_sidecar.proxy.relay.exchange import Closing

BACKLOG = 1024


log = logging.getLogger(__name__)

MAX_BUFFERED_BYTES, MIN_BUFFERED_BYTES = 256 << 20, 1 << 20
IDLE_BYTES = 64 << 20  # of each process
FILES = ("memory.max", "memory/memory.limit_in_bytes")  # of cgroup v2 and v1, as a container sees its own


FILES_PER_CONNECTION = 2  # the client's socket and the broker's
SPARE_FILES = 100  # for listeners, the admin port, the sidecar's own connections, files


def raise_file_limit() -> None:
    """Allow this process as many open files as it may allow itself."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def forbid_core_dumps() -> None:
    """Have a crash write no memory, in which are passwords, tokens and records, to a disk."""
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    # 0 would still let a program have it where `core_pattern` names one: of 1 byte Linux gives it nothing, nor a file.
    least = min(1, hard) if hard != resource.RLIM_INFINITY else 1
    resource.setrlimit(resource.RLIMIT_CORE, (least, least))


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


def default_max_buffered(processes: int, root: Path = Path("/sys/fs/cgroup")) -> int:
    """The default of ``connections.max_buffered`` in bytes: half of what the container's limit leaves, at most 256 MiB.

    The other half is for what is made of buffered frames: decompressed, changed and written again.
    """
    room = _room(processes, root)
    return MAX_BUFFERED_BYTES if room is None else max(MIN_BUFFERED_BYTES, min(MAX_BUFFERED_BYTES, room // 2))


def warn_if_too_large(max_buffered: int | None, processes: int, root: Path = Path("/sys/fs/cgroup")) -> None:
    """``max_buffered``: as configured, in bytes; None if it is not."""
    room = _room(processes, root)
    if max_buffered is not None and room is not None and max_buffered > room:
        detail = (
            f"{max_buffered >> 20} MiB, and the container's limit leaves {max(0, room) >> 20} MiB: lower it, or raise"
        )
        log.warning("connections.max_buffered above the memory limit", extra={"detail": f"{detail} the limit"})


def _room(processes: int, root: Path) -> int | None:
    """Bytes that the limit leaves above the idle processes; None without a limit."""
    for name in FILES:
        try:
            limit = int((root / name).read_text())
        except (OSError, ValueError):  # "max"
            continue
        return limit - processes * IDLE_BYTES
    return None


def check_free(host: str, port: int) -> None:
    """Raises OSError if a program listens at the port, even one that would share it."""
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(address)


def bind_socket(host: str, port: int, shared: bool = False) -> socket.socket:
    """A socket that queues connections at once, before they are served. Raises OSError.

    ``shared``: other processes listen at the same port, and the kernel spreads new connections over them.
    """
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    bound = socket.socket(family, kind, protocol)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        bound.bind(address)
        bound.listen(BACKLOG)
        bound.setblocking(False)
    except OSError:
        bound.close()
        raise
    return bound
