"""Ports of 127.0.0.1 that are free."""

from __future__ import annotations

import os
import random
import socket

# Below the range from which the kernel takes the local ports of outgoing connections: a broker or sidecar that is
# started again finds its port still free. Test processes that run side by side have each a share of their own.
WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
SHARE = 20000 // int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
FIRST = 12000 + WORKER * SHARE
LAST = FIRST + SHARE
_kept: set[int] = set()


def is_free(port: int) -> bool:
    """Whether a listener can be opened there now, and no program that may come back listened there."""
    if port in _kept:
        return False
    with socket.socket() as candidate:
        candidate.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            candidate.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_ports(count: int, keep: bool = False) -> range:
    """``count`` neighbouring free ports; with ``keep`` this process will not give them again."""
    for _ in range(1000):
        block = range(start := random.randrange(FIRST, LAST - count), start + count)
        if all(map(is_free, block)):
            _kept.update(block if keep else ())
            return block
    raise OSError(f"no {count} neighbouring free ports between {FIRST} and {LAST}")
