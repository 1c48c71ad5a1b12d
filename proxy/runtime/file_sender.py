"""Sends a response that is partly in a file, piece after piece: the next one is read once the client has read the last.

It takes the place of the writer of the connection's client; what is written meanwhile waits its turn.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Protocol

from kafka_sidecar.codec.wire import Buffer
from kafka_sidecar.proxy.relay.exchange import Closing, Need, Work
from kafka_sidecar.proxy.relay.session import Session
from kafka_sidecar.proxy.runtime.flow import Flow
from kafka_sidecar.proxy.runtime.side import LINGER_S, Side
from kafka_sidecar.proxy.runtime.tasks import spawn
from kafka_sidecar.proxy.runtime.unlinked_file import UnlinkedFile, file_of
from kafka_sidecar.proxy.runtime.writers import Writer

PIECE_BYTES = 512 << 10  # that are read at a time
SENDING = "a response is sent from a file"  # reason to read no more of either peer


class Connection(Protocol):
    """What is needed of the client's connection."""

    flow: Flow
    number: int
    session: Session
    to_client: Writer | None
    perform: Callable[[Need, int, bool], asyncio.Future[Any]]

    @property
    def client(self) -> Side: ...

    def end(self, closing: Closing) -> None: ...


class FileSender(Writer):
    """A client's writer while files are sent to it."""

    __slots__ = ("_connection", "_is_closing", "_queue", "_task", "_writer")

    def __init__(self, connection: Connection, writer: Writer) -> None:
        """``writer``: the connection's own, which takes its place again at the end."""
        self._connection = connection
        self._writer = writer
        self._queue: deque[Buffer] = deque()
        self._is_closing = False
        self._task: asyncio.Task[None] | None
        connection.flow.sender = self
        connection.flow.pause(SENDING)
        self._start()

    def _start(self) -> None:
        self._task = spawn(self._send(), "send a file")
        self._task.add_done_callback(self._ended)

    def write(self, data: Buffer) -> None:
        self._queue.append(data)
        if file_of(data) is None:
            self._connection.session.account.add(len(data))

    def writelines(self, pieces: Iterable[Buffer]) -> None:
        for piece in pieces:
            self.write(piece)

    def close(self) -> None:
        """Send what is left, then close the client's side; but do not wait for ever for a client that does not read."""
        self._is_closing = True
        if self._connection.client.transport is None:
            self._cancel()
        else:
            asyncio.get_running_loop().call_later(LINGER_S, self._cancel)

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _send(self) -> None:
        flow = self._connection.flow
        while self._queue:
            piece = self._queue.popleft()
            if (file := file_of(piece)) is not None:
                await self._send_file(file)
            else:
                self._connection.session.account.release(len(piece))
                self._writer.write(piece)
            await flow.client_has_read()
            if self._connection.client.transport is None:
                return

    async def _send_file(self, file: UnlinkedFile) -> None:
        connection = self._connection
        for at in range(0, file.size, PIECE_BYTES):
            read = Work(partial(file.read, at, min(PIECE_BYTES, file.size - at)), is_light=True)
            piece = await connection.perform(read, connection.number, False)
            connection.flow.bytes_from_files += len(piece)
            self._writer.write(piece)
            await connection.flow.client_has_read()
            if connection.client.transport is None:
                return

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._task = None  # the traceback of one that was cancelled holds the file
        connection = self._connection
        has_failed = task.cancelled() or task.exception() is not None
        if self._queue and not has_failed and connection.client.transport is not None:
            self._start()  # what was written after the last piece
            return
        if left := sum(len(one) for one in self._queue if file_of(one) is None):
            connection.session.account.release(left)
        self._queue.clear()
        connection.flow.sender = None
        if connection.to_client is self:
            connection.to_client = self._writer
        if self._is_closing:
            connection.client.close()
        elif not task.cancelled() and (error := task.exception()) is not None:
            connection.end(Closing("internal_error", f"a file cannot be sent: {error!r}"))
        connection.flow.resume(SENDING)


def sender_for(connection: Connection, writer: Writer | None, pieces: Iterable[Buffer]) -> Writer | None:
    """The writer for these pieces: another one if any of them is in a file."""
    if writer is None or isinstance(writer, FileSender) or not any(file_of(piece) is not None for piece in pieces):
        return writer
    connection.to_client = sender = FileSender(connection, writer)
    return sender
