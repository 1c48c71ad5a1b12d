"""The two sockets of a connection: paused for reasons, closed without losing what is written; and when they last moved.

The rest of a large frame is read from the socket into the frame's own memory. As a protocol gets them, bytes are copied
twice more: from the event loop's buffer into an object for each read, and from there to their place in the frame.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol, cast

from kafka_sidecar.codec.large_bytes import Gathered
from kafka_sidecar.codec.wire import Buffer
from kafka_sidecar.proxy.relay.exchange_driver import MAX_TURN_S
from kafka_sidecar.proxy.relay.frames import Frames
from kafka_sidecar.proxy.relay.memory_budget import Account

PIECE_BYTES = 64 << 10  # of equal pieces, at least
# A smaller read is not the beginning of a large frame that arrives quickly, nor one of many in the same turn of the
# loop: libuv reads on, 32 times, as long as a read fills its buffer of 250 KB.
MIN_CHUNK_BYTES = 64 << 10
OTHERS_TURN = "others have a turn after its reads"


# The first byte of Linux' tcp_info is the state of the connection (include/net/tcp_states.h).
TCP_INFO: int | None = getattr(socket, "TCP_INFO", None)  # elsewhere there is no such option
TCP_CLOSE, TCP_CLOSE_WAIT = 7, 8  # it was reset; the peer has closed


LINGER_S = 10.0  # how long what is already written may take to reach a peer once its connection is being closed


class Side(asyncio.Protocol):
    """It is read only while there is no reason to pause it."""

    def __init__(self, window: int) -> None:
        self._window = window
        self._reasons: dict[str, float] = {}  # since when, by `time.monotonic`
        self.transport: asyncio.Transport | None = None
        self.secured: Callable[[asyncio.BaseTransport], None] | None = None  # is called once TLS is established
        self._linger: asyncio.TimerHandle | None = None
        self._spent_s = 0.0  # on large reads, since others certainly had a turn

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(self._window)
        self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if self.secured is not None:
            self.secured(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = self.secured = None
        if self._linger is not None:
            self._linger.cancel()  # it would keep the connection as long as it may take to close one

    @property
    def reasons(self) -> frozenset[str]:
        """Why it is not read."""
        return frozenset(self._reasons)

    @property
    def paused_since(self) -> Mapping[str, float]:
        """The same, and since when, by `time.monotonic`."""
        return dict(self._reasons)

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
        self._reasons.setdefault(reason, time.monotonic())

    def resume(self, reason: str) -> None:
        self._reasons.pop(reason, None)
        if self.transport is not None and not self._reasons and not self.transport.is_closing():
            self.transport.resume_reading()

    def count_read(self, spent_s: float) -> None:
        """A large read took so long. Nothing more is read in this turn of the event loop if such reads took long."""
        self._spent_s += spent_s
        if self._spent_s >= MAX_TURN_S:
            self._spent_s = 0.0
            self.pause(OTHERS_TURN)
            asyncio.get_running_loop().call_soon(self.resume, OTHERS_TURN)

    def has_read(self, size: int) -> None:
        """So many bytes have come without `data_received`: see `DirectReads`."""

    def close(self) -> None:
        """Send what is written, then end; but do not wait for ever for a peer that does not read."""
        if self.transport is not None and not self.transport.is_closing():
            self.transport.close()
            if self.transport.get_write_buffer_size():
                self._linger = asyncio.get_running_loop().call_later(LINGER_S, self.abort)

    def abort(self) -> None:
        """End without what is written and not read yet."""
        if self.transport is not None:
            self.transport.abort()


def has_closed(transport: asyncio.Transport | None) -> bool:
    """False also where that cannot be known."""
    if transport is None or TCP_INFO is None or transport.is_closing():
        return False
    info = transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, TCP_INFO, 1)
    return info[0] in (TCP_CLOSE, TCP_CLOSE_WAIT)


class DirectReads(asyncio.BufferedProtocol):
    """A side's protocol until all of a frame but its last byte has come, with which the side goes on as ever."""

    def __init__(self, side: Side, frames: Frames, gathered: Gathered) -> None:
        self._side = side
        self._frames = frames
        self._gathered = gathered  # the memory is valid as long as it is held
        self.pause_writing, self.resume_writing = side.pause_writing, side.resume_writing  # type: ignore[method-assign]
        self.connection_lost, self.eof_received = side.connection_lost, side.eof_received  # type: ignore[method-assign]

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._gathered.room

    def buffer_updated(self, size: int) -> None:
        if self._frames.gathered is self._gathered:  # otherwise the connection is ending
            self._side.has_read(size)
            self._frames.fill(size)
            if not self._gathered.room:
                _use(self._side, self._side)


def read_directly(side: Side, frames: Frames) -> None:
    """Read into the memory of a large frame that is coming in, if there is one."""
    gathered, transport = frames.gathered, side.transport
    if gathered is None or not gathered.room or transport is None or transport.get_extra_info("sslcontext"):
        return
    _use(side, DirectReads(side, frames, gathered))


def _use(side: Side, protocol: asyncio.BaseProtocol) -> None:
    transport = side.transport
    if transport is None or transport.is_closing():
        return
    transport.set_protocol(protocol)
    if not side.is_paused:  # how it is read is decided where reading begins
        transport.pause_reading()
        transport.resume_reading()


class Writer(Protocol):
    def write(self, data: Buffer) -> None: ...

    def writelines(self, pieces: Iterable[Buffer]) -> None: ...


class _Nowhere:
    """Takes what a peer that has gone would have read."""

    def write(self, data: Buffer) -> None:
        pass

    def writelines(self, pieces: Iterable[Buffer]) -> None:
        pass


NOWHERE = _Nowhere()


class InPieces:
    """A transport with TLS, where each write is copied three times on its way through OpenSSL: in small pieces from one
    copy to the next in the processor's cache.
    """

    __slots__ = ("_write",)

    def __init__(self, transport: asyncio.WriteTransport) -> None:
        self._write = transport.write

    def write(self, data: Buffer) -> None:
        count = len(data) // PIECE_BYTES
        if count <= 1:
            self._write(data)
            return
        view, size = memoryview(data), -(-len(data) // count)
        for at in range(0, len(view), size):
            self._write(view[at : at + size])

    def writelines(self, pieces: Iterable[Buffer]) -> None:
        for piece in pieces:
            self.write(piece)


def writer_of(transport: asyncio.WriteTransport | None) -> Writer:
    """What to write to; a peer without a transport has gone."""
    if transport is None:
        return NOWHERE
    return transport if transport.get_extra_info("sslcontext") is None else InPieces(transport)


MIN_BYTES = 1 << 20  # more than relayed frames leave in a transport


class Unsent:
    """What waits in the transport of one client that reads slowly, on its connection's account."""

    __slots__ = ("_account", "_bytes")

    def __init__(self, account: Account) -> None:
        self._account = account
        self._bytes = 0

    @property
    def bytes(self) -> int:
        """How much waits, of that which counts."""
        return self._bytes

    def hold(self, transport: asyncio.Transport | None) -> None:
        """The client reads slowly: all that is written so far waits. To be called again once more is written."""
        size = transport.get_write_buffer_size() if transport is not None else 0
        if size >= MIN_BYTES and size > self._bytes:
            self._account.hold_unread(size - self._bytes)
            self._bytes = size

    def release(self) -> None:
        """The client has read, or has gone."""
        if self._bytes:
            self._account.release_unread(self._bytes)
            self._bytes = 0


class Flow:
    """As `relay.memory_budget.Owner` of the connection's account."""

    __slots__ = ("_client", "_is_slow", "_unsent", "account", "broker")

    def __init__(self, account: Account, client: Side) -> None:
        self.account = account
        self._client = client
        self._unsent = Unsent(account)
        self._is_slow = False
        self.broker: Side | None = None  # once it is connected
        account.owner = self

    @property
    def unsent(self) -> int:
        """Bytes of the budget that a client holds which reads slowly."""
        return self._unsent.bytes

    @property
    def client_progress(self) -> int:
        """Grows as the client reads a response that was written whole."""
        transport = self._client.transport
        return -transport.get_write_buffer_size() if transport is not None else 0

    def client_is_slow(self) -> None:
        # The client too is no longer read: its requests could make answers of our own without end.
        self._is_slow = True
        self.pause("the client reads slowly")
        self._unsent.hold(self._client.transport)

    def has_written(self) -> None:
        """All pieces of a response are written: the client may have been slow from the first one on."""
        if self._is_slow:
            self._unsent.hold(self._client.transport)

    def client_reads_again(self) -> None:
        self._is_slow = False
        self._unsent.release()
        self.resume("the client reads slowly")

    def pause_for_memory(self) -> None:
        self.pause("connections.max_buffered")

    def resume_after_memory(self) -> None:
        self.resume("connections.max_buffered")

    def pause_for_turn(self) -> None:
        self.pause("others have a turn")
        asyncio.get_running_loop().call_soon(self._resume_after_turn)

    def end(self) -> None:
        """A side has ended."""
        if self._client.transport is None:
            self._is_slow = False
        self._unsent.release()

    def _resume_after_turn(self) -> None:
        self.account.renew_turn()
        self.resume("others have a turn")

    def pause(self, reason: str) -> None:
        """Read of neither side."""
        self._client.pause(reason)
        if self.broker is not None:
            self.broker.pause(reason)

    def resume(self, reason: str) -> None:
        self._client.resume(reason)
        if self.broker is not None:
            self.broker.resume(reason)


class Muting:
    """The client is not read for some time, for a rate limit; nothing that comes for it waits."""

    __slots__ = ("_client", "_reason", "_timer")

    def __init__(self, client: Side) -> None:
        self._client = client
        self._reason: str | None = None  # as the admin port shows it
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_on(self) -> bool:
        return self._timer is not None

    def begin(self, seconds: float, limit: str) -> None:
        """Mute the client from now on, also where it is muted."""
        reason, before = f"rate limit {limit}", self._reason
        self._client.pause(reason)
        if before not in (None, reason):
            self._client.resume(before)
        self._reason = reason
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, self._over)

    def end(self) -> None:
        """The connection ends."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def stop(self) -> None:
        """Read the client again now."""
        self.end()
        self._over()

    def _over(self) -> None:
        self._timer = None
        if (reason := self._reason) is not None:
            self._reason = None
            self._client.resume(reason)


class Counts(Protocol):
    """A connection that counts bytes."""

    bytes_from_client: int
    bytes_from_broker: int
    flow: Flow

    @property
    def client_is_paused(self) -> bool: ...

    @property
    def broker_is_paused(self) -> bool: ...


class Activity:
    """Compares the counts of a connection with those of the last look."""

    __slots__ = ("_bytes_from_broker", "_bytes_from_client", "_client_progress", "_moved_at", "broker_at", "client_at")

    def __init__(self, now: float) -> None:
        self._bytes_from_client = self._bytes_from_broker = self._client_progress = 0
        self._moved_at = now
        self.client_at = self.broker_at = now  # when each last sent something, or was not read

    def quiet_s(self, counts: Counts, now: float) -> float:
        """For how long neither has sent a byte, nor the client read one of those that wait for it."""
        if (progress := counts.flow.client_progress) != self._client_progress:
            self._client_progress = progress
            self._moved_at = now
        if counts.bytes_from_client != self._bytes_from_client:
            self._bytes_from_client = counts.bytes_from_client
            self._moved_at = self.client_at = now
        elif counts.client_is_paused:
            self.client_at = now
        if counts.bytes_from_broker != self._bytes_from_broker:
            self._bytes_from_broker = counts.bytes_from_broker
            self._moved_at = self.broker_at = now
        elif counts.broker_is_paused:
            self.broker_at = now
        return now - self._moved_at
