"""The clients that connected to a broker, from the broker's own log: one line per accepted connection."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

# Every accepted connection is logged by this class before its first byte is read, so none is missed.
LOGGER = "kafka.network.DataPlaneAcceptor"
_ACCEPTED = re.compile(r"Accepted connection from /([\d.]+):(\d+) on /[\d.]+:(\d+) ")


@dataclass(frozen=True, slots=True)
class Connection:
    """One accepted connection: who came, and to which port of the broker."""

    remote_host: str
    remote_port: int
    local_port: int


def accepted(log: str) -> Iterator[Connection]:
    """The connections that a broker's log names, in order.

    >>> line = "DEBUG kafka.network.DataPlaneAcceptor - Accepted connection from /127.0.0.2:4242 on /127.0.0.1:9092 and"
    >>> list(accepted(line))
    [Connection(remote_host='127.0.0.2', remote_port=4242, local_port=9092)]
    """
    for match in _ACCEPTED.finditer(log):
        yield Connection(match[1], int(match[2]), int(match[3]))
