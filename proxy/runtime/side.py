"""One of the two sockets of a connection: paused for reasons, closed without losing what is written."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import cast

LINGER_S = 10.0  # how long what is already written may take to reach a peer once its connection is being closed


class Side(asyncio.Protocol):
    """It is read only while there is no reason to pause it."""

    def __init__(self, window: int) -> None:
        self._window = window
        self._reasons: set[str] = set()
        self.transport: asyncio.Transport | None = None
        self.secured: Callable[[asyncio.BaseTransport], None] | None = None  # is called once TLS is established

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(self._window)
        self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if self.secured is not None:
            self.secured(transport)

    @property
    def reasons(self) -> frozenset[str]:
        """Why it is not read."""
        return frozenset(self._reasons)

    @property
    def is_paused(self) -> bool:
        return bool(self._reasons)

    @property
    def has_half_close(self) -> bool:
        """Whether the peer may still read once it sends no more: TLS ends both directions."""
        return self.transport is not None and self.transport.can_write_eof()

    def pause(self, reason: str) -> None:
        if self.transport is not None and not self._reasons:
            self.transport.pause_reading()
        self._reasons.add(reason)

    def resume(self, reason: str) -> None:
        self._reasons.discard(reason)
        if self.transport is not None and not self._reasons and not self.transport.is_closing():
            self.transport.resume_reading()

    def has_read(self, size: int) -> None:
        """So many bytes have come without `data_received` (direct_reads.py)."""

    def close(self) -> None:
        """Send what is written, then end; but do not wait for ever for a peer that does not read."""
        if self.transport is not None and not self.transport.is_closing():
            self.transport.close()
            if self.transport.get_write_buffer_size():
                asyncio.get_running_loop().call_later(LINGER_S, self._abort)

    def _abort(self) -> None:
        if self.transport is not None:
            self.transport.abort()
