"""One socket of a connection: reasons to pause it, and its end."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from support.dialogue import response
from support.in_process import until

from kafka_sidecar.codec.large_bytes import MIN_LARGE_BYTES
from kafka_sidecar.proxy.relay.frames import LENGTH, Frames
from kafka_sidecar.proxy.relay.memory_budget import Account, MemoryBudget
from kafka_sidecar.proxy.runtime import side as side_module
from kafka_sidecar.proxy.runtime.side import (
    MIN_CHUNK_BYTES,
    NOWHERE,
    PIECE_BYTES,
    Side,
    has_closed,
    read_directly,
    writer_of,
)
from kafka_sidecar.proxy.telemetry.metrics import Buffered

DATA = bytes(range(256)) * 1000


LARGE = response(1, os.urandom(MIN_LARGE_BYTES + 300_000))
SMALL = response(2, b"small")
BUDGET = 1 << 30
WAIT_S = 10.0


class Transport(asyncio.Transport):
    """Records what is done to it."""

    def __init__(self, unsent: int = 0) -> None:
        super().__init__()
        self.done: list[str] = []
        self.unsent = unsent

    def pause_reading(self) -> None:
        self.done.append("pause")

    def resume_reading(self) -> None:
        self.done.append("resume")

    def is_closing(self) -> bool:
        return "close" in self.done

    def close(self) -> None:
        self.done.append("close")

    def abort(self) -> None:
        self.done.append("abort")

    def get_write_buffer_size(self) -> int:
        return self.unsent


def side_of(transport: Transport) -> Side:
    side = Side(1000)
    side.transport = transport
    return side


def test_a_side_is_paused_while_there_is_a_reason() -> None:
    transport = Transport()
    side = side_of(transport)
    for step in ("pause a", "pause b", "pause a", "resume a", "resume x"):
        what, reason = step.split()
        getattr(side, what)(reason)
        assert side.is_paused
    side.resume("b")
    assert not side.is_paused
    assert transport.done == ["pause", "resume"]


def test_a_side_that_is_closing_is_not_read_again() -> None:
    transport = Transport()
    side = side_of(transport)
    side.pause("a")
    side.close()
    side.resume("a")
    assert transport.done == ["pause", "close"]


@pytest.mark.parametrize(("unsent", "done"), [(0, ["close"]), (9, ["close", "abort"])])
async def test_a_peer_that_does_not_read_its_last_bytes_is_not_waited_for(
    unsent: int, done: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    later = asyncio.Event()
    monkeypatch.setattr(side_module, "LINGER_S", 0)
    transport = Transport(unsent)
    side_of(transport).close()
    asyncio.get_running_loop().call_later(0.001, later.set)
    await later.wait()
    assert transport.done == done


class Paused(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        asyncio.get_running_loop().call_soon(transport.pause_reading)  # type: ignore[attr-defined]


async def accepted() -> tuple[asyncio.Transport, socket.socket]:
    """A connection that is not read, and its peer."""
    loop, protocol = asyncio.get_running_loop(), Paused()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        other = socket.create_connection(listener.getsockname())
        ours, _ = listener.accept()
    transport, _ = await loop.connect_accepted_socket(lambda: protocol, ours)
    await until(lambda: not transport.is_reading())
    return transport, other


@pytest.mark.parametrize("unread", [b"", b"unread"])
@pytest.mark.parametrize("by_reset", [False, True])
async def test_a_peer_that_has_closed_is_noticed(unread: bytes, by_reset: bool) -> None:
    transport, other = await accepted()
    other.sendall(unread)
    assert not has_closed(transport)
    if by_reset:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    other.close()
    await until(lambda: has_closed(transport))
    transport.abort()
    assert not has_closed(transport)  # it is closing: there is nothing left to notice


async def test_where_the_system_does_not_say_nothing_has_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(side_module, "TCP_INFO", None)
    transport, other = await accepted()
    other.close()
    assert not has_closed(transport)
    assert not has_closed(None)
    with suppress(OSError):
        transport.abort()


class Receiver(Side):
    """Collects frames as a session does those of a broker."""

    def __init__(self) -> None:
        super().__init__(1 << 16)
        self.account = Account(MemoryBudget(BUDGET, Buffered()))
        self.frames = Frames(self._begin, LENGTH.size, self.account)
        self.found: list[bytes] = []
        self.chunks = self.direct = 0  # bytes that have come in either way
        self.changed = asyncio.Event()
        self.lost: list[Exception | None] = []

    def _begin(self, data: bytes, at: int) -> int:
        self.frames.collect(self._collected)
        size: int = LENGTH.size + LENGTH.unpack_from(data, at)[0]
        return size

    def _collected(self, frame: bytes) -> bytes:
        self.found.append(frame)
        return b""

    def data_received(self, chunk: bytes) -> None:
        self.chunks += len(chunk)
        assert self.frames.feed(chunk) == b""
        if len(chunk) >= MIN_CHUNK_BYTES:
            read_directly(self, self.frames)
        self.changed.set()

    def has_read(self, size: int) -> None:
        self.direct += size
        self.changed.set()

    def connection_lost(self, error: Exception | None) -> None:
        self.lost.append(error)
        self.changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(WAIT_S):
            while not condition():
                self.changed.clear()
                await self.changed.wait()


@asynccontextmanager
async def receiving() -> AsyncIterator[tuple[Receiver, asyncio.StreamWriter]]:
    """A receiver, and what sends to it."""
    ours, theirs = socket.socketpair()
    transport, receiver = await asyncio.get_running_loop().create_connection(Receiver, sock=ours)
    _, writer = await asyncio.open_connection(sock=theirs)
    try:
        yield receiver, writer
    finally:
        writer.close()
        transport.abort()


async def test_a_large_frame_is_read_into_its_memory_and_what_follows_as_ever() -> None:
    async with receiving() as (receiver, writer):
        for count in (1, 2):
            writer.write(SMALL + LARGE + SMALL)
            await receiver.until(lambda count=count: len(receiver.found) == 3 * count)  # type: ignore[misc]
        assert receiver.found == 2 * [SMALL, LARGE, SMALL]
        assert receiver.direct > receiver.chunks
        assert receiver.direct + receiver.chunks == 2 * len(SMALL + LARGE + SMALL)
        assert receiver.account.bytes == 0


async def test_a_frame_that_comes_to_its_last_byte_is_not_complete() -> None:
    async with receiving() as (receiver, writer):
        writer.write(LARGE[:-1])
        await receiver.until(lambda: receiver.direct + receiver.chunks == len(LARGE) - 1)
        assert receiver.found == []
        assert receiver.account.bytes == len(LARGE) - 1
        writer.write(LARGE[-1:])
        await receiver.until(lambda: len(receiver.found) == 1)
        assert receiver.found == [LARGE]
        assert receiver.account.bytes == 0


async def test_nothing_is_read_while_the_side_is_paused() -> None:
    async with receiving() as (receiver, writer):
        writer.write(LARGE[:-1_000_000])
        await receiver.until(lambda: receiver.direct + receiver.chunks == len(LARGE) - 1_000_000)
        receiver.pause("a reason")
        writer.write(LARGE[-1_000_000:])
        await asyncio.sleep(0.1)
        assert receiver.direct + receiver.chunks == len(LARGE) - 1_000_000
        receiver.resume("a reason")
        await receiver.until(lambda: len(receiver.found) == 1)
        assert receiver.found == [LARGE]


async def test_a_side_that_is_paused_when_a_large_frame_begins_reads_on_when_it_is_resumed() -> None:
    async with receiving() as (receiver, writer):
        writer.write(SMALL)
        await receiver.until(lambda: len(receiver.found) == 1)
        receiver.pause("a reason")
        receiver.data_received(LARGE[:MIN_CHUNK_BYTES])
        receiver.resume("a reason")
        writer.write(LARGE[MIN_CHUNK_BYTES:] + SMALL)
        await receiver.until(lambda: len(receiver.found) == 3)
        assert receiver.found == [SMALL, LARGE, SMALL]


async def test_the_side_learns_that_the_peer_has_gone_in_the_middle_of_a_frame() -> None:
    async with receiving() as (receiver, writer):
        writer.write(LARGE[:-1_000_000])
        await receiver.until(lambda: receiver.direct + receiver.chunks == len(LARGE) - 1_000_000)
        writer.close()
        await receiver.until(lambda: len(receiver.lost) == 1)
        receiver.frames.drop()
        assert receiver.account.bytes == 0
        assert receiver.found == []


async def test_what_comes_after_the_frame_was_dropped_is_not_counted() -> None:
    async with receiving() as (receiver, writer):
        writer.write(LARGE[:-1_000_000])
        await receiver.until(lambda: receiver.direct + receiver.chunks == len(LARGE) - 1_000_000)
        receiver.frames.drop()
        writer.write(LARGE[-1_000_000:])
        await asyncio.sleep(0.1)
        assert receiver.direct + receiver.chunks == len(LARGE) - 1_000_000
        assert receiver.account.bytes == 0


class Encrypted(asyncio.Transport):
    """A transport with TLS, which cannot be read directly."""

    def __init__(self) -> None:
        super().__init__({"sslcontext": ssl.create_default_context()})

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        raise AssertionError("read directly, though what arrives is encrypted")


async def test_with_tls_chunks_are_copied() -> None:
    receiver = Receiver()
    receiver.transport = Encrypted()
    receiver.data_received(LARGE[:MIN_CHUNK_BYTES])
    receiver.data_received(LARGE[MIN_CHUNK_BYTES:])
    assert receiver.found == [LARGE]


def test_small_frames_have_no_memory_of_their_own() -> None:
    receiver = Receiver()
    assert receiver.frames.gathered is None
    receiver.frames.feed(response(1, bytes(100))[:50])
    assert receiver.frames.gathered is None


@pytest.mark.parametrize("size", [10, 100])
def test_frames_count_what_was_read_for_them(size: int) -> None:
    receiver = Receiver()
    receiver.frames.feed(LARGE[:1000])
    gathered = receiver.frames.gathered
    assert gathered is not None
    assert len(gathered.room) == len(LARGE) - 1001
    gathered.room[:size] = LARGE[1000 : 1000 + size]
    receiver.frames.fill(size)
    assert receiver.account.bytes == 1000 + size
    receiver.frames.feed(LARGE[1000 + size :])
    assert receiver.found == [LARGE]


class TakingTransport(asyncio.Transport):
    def __init__(self, **extra: object) -> None:
        super().__init__(extra)
        self.written: list[bytes] = []

    def write(self, data: Any) -> None:
        self.written.append(bytes(data))


def test_plaintext_is_written_at_once() -> None:
    transport = TakingTransport()
    writer_of(transport).write(DATA)
    assert transport.written == [DATA]


@pytest.mark.parametrize("size", [0, 1, PIECE_BYTES, PIECE_BYTES + 1, len(DATA)])
def test_tls_is_written_in_pieces_that_make_the_same_bytes(size: int) -> None:
    transport = TakingTransport(sslcontext=object())
    writer = writer_of(transport)
    writer.write(DATA[:size])
    writer.writelines([memoryview(DATA), b"end"])
    assert b"".join(transport.written) == DATA[:size] + DATA + b"end"
    assert max(map(len, transport.written)) < 2 * PIECE_BYTES
    assert min(map(len, transport.written[1:-1])) >= PIECE_BYTES - 1


def test_nothing_is_written_for_a_peer_that_has_gone() -> None:
    assert writer_of(None) is NOWHERE
    NOWHERE.write(DATA)
    NOWHERE.writelines([DATA])
