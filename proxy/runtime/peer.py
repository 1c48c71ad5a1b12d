"""Whether a peer has closed its connection, asked while nothing is read from it: its last bytes may still be unread."""

from __future__ import annotations

import asyncio
import socket

# The first byte of Linux' tcp_info is the state of the connection (include/net/tcp_states.h).
TCP_INFO: int | None = getattr(socket, "TCP_INFO", None)  # elsewhere there is no such option
TCP_CLOSE, TCP_CLOSE_WAIT = 7, 8  # it was reset; the peer has closed


def has_closed(transport: asyncio.Transport | None) -> bool:
    """False also where that cannot be known."""
    if transport is None or TCP_INFO is None or transport.is_closing():
        return False
    info = transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, TCP_INFO, 1)
    return info[0] in (TCP_CLOSE, TCP_CLOSE_WAIT)
