"""Listening sockets."""

from __future__ import annotations

import socket

BACKLOG = 1024


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
