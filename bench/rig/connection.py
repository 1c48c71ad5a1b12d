"""Non-blocking sockets on one busy-polling loop, for both the client's and the broker's end."""

from __future__ import annotations

import select
import socket
from collections.abc import Callable, Iterable
from struct import Struct
from typing import Any, Final

READ_BYTES: Final = 256 * 1024
MAX_PIECES: Final = 64  # of one sendmsg; far below IOV_MAX


class Loop:
    """An epoll loop that never sleeps, so that writing to this process does not cost the peer a wake-up."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._on_event: dict[int, Callable[[int], None]] = {}
        self.buffer = memoryview(bytearray(READ_BYTES))  # shared: bytes are parsed before the next read

    def watch(self, sock: socket.socket, on_event: Callable[[int], None], events: int = select.EPOLLIN) -> None:
        self._on_event[sock.fileno()] = on_event
        self._epoll.register(sock, events)

    def change(self, sock: socket.socket, events: int) -> None:
        self._epoll.modify(sock, events)

    def forget(self, sock: socket.socket) -> None:
        del self._on_event[sock.fileno()]
        self._epoll.unregister(sock)

    def poll(self, timeout_s: float = 0) -> None:
        on_event = self._on_event
        for descriptor, events in self._epoll.poll(timeout_s):
            if descriptor in on_event:  # or closed by an event before it
                on_event[descriptor](events)


class Connection:
    """One socket, as frames: ``on_frames`` gets the heads of all frames that one read completed."""

    def __init__(
        self,
        loop: Loop,
        sock: socket.socket,
        head: Struct,
        on_frames: Callable[[list[tuple[int, ...]]], None],
        on_end: Callable[[], object],
    ) -> None:
        self._loop, self.sock, self._head = loop, sock, head
        self._on_frames, self._on_end = on_frames, on_end
        self._left = 0  # bytes of the current frame still to come
        self._current: tuple[int, ...] = ()  # its head
        self._carry = b""  # start of an incomplete head
        self._unsent: list[Any] = []
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        loop.watch(sock, self._on_event)

    def close(self) -> None:
        if self.sock.fileno() >= 0:
            self._loop.forget(self.sock)
            self.sock.close()

    def write(self, pieces: list[Any]) -> None:
        """Send the pieces; the rest when the socket is writable again. A single piece may be reused afterwards."""
        left = pieces if self._unsent else self._send(pieces)
        if not left:
            return
        if len(pieces) == 1:
            left = [bytes(piece) for piece in left]
        if not self._unsent:
            self._loop.change(self.sock, select.EPOLLIN | select.EPOLLOUT)
        self._unsent += left

    def _send(self, pieces: list[Any]) -> list[Any]:
        """Send as much as possible and return the rest."""
        try:
            if len(pieces) == 1:
                sent = self.sock.send(pieces[0])
                return [] if sent == len(pieces[0]) else [pieces[0][sent:]]
            sent = self.sock.sendmsg(pieces[:MAX_PIECES])
        except BlockingIOError:
            return pieces
        except ConnectionError:
            return []  # the next read meets the same end and reports it
        return unsent(pieces, sent)

    def _on_event(self, events: int) -> None:
        if events & select.EPOLLOUT:
            self._unsent = self._send(self._unsent)
            if not self._unsent:
                self._loop.change(self.sock, select.EPOLLIN)
        if events & ~select.EPOLLOUT:
            self._read()

    def _read(self) -> None:
        buffer, carried = self._loop.buffer, len(self._carry)
        try:
            if carried:
                buffer[:carried] = self._carry
                size = self.sock.recv_into(buffer[carried:])
            else:
                size = self.sock.recv_into(buffer)
        except BlockingIOError:  # a record of TLS without data
            return
        except ConnectionError:
            size = 0
        if not size:
            self.close()
            self._on_end()
            return
        if size < self._left:
            self._left -= size
            return
        if done := self._split(buffer, size + carried):
            self._on_frames(done)

    def _split(self, buffer: memoryview, size: int) -> list[tuple[int, ...]]:
        unpack, need, at, done = self._head.unpack_from, self._head.size, 0, []
        if self._left:
            at, self._left = self._left, 0
            done.append(self._current)
        self._carry = b""
        while at + need <= size:
            fields = unpack(buffer, at)
            at += 4 + fields[0]
            if at > size:
                self._left, self._current = at - size, fields
                return done
            done.append(fields)
        if at < size:
            self._carry = bytes(buffer[at:size])
        return done


def unsent(pieces: Iterable[Any], sent: int) -> list[memoryview]:
    """The rest of ``pieces`` after their first ``sent`` bytes."""
    left = []
    for piece in pieces:
        if sent >= len(piece):
            sent -= len(piece)
        else:
            left.append(memoryview(piece)[sent:])
            sent = 0
    return left
