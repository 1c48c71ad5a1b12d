"""Large frames are read into their own memory."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from support.dialogue import response

from kafka_sidecar.codec.large_bytes import MIN_LARGE_BYTES
from kafka_sidecar.proxy.relay.frames import LENGTH, Frames
from kafka_sidecar.proxy.relay.memory_budget import Account, MemoryBudget
from kafka_sidecar.proxy.runtime.direct_reads import MIN_CHUNK_BYTES, read_directly
from kafka_sidecar.proxy.runtime.side import Side
from kafka_sidecar.proxy.telemetry.metrics import Buffered

LARGE = response(1, os.urandom(MIN_LARGE_BYTES + 300_000))
SMALL = response(2, b"small")
BUDGET = 1 << 30
WAIT_S = 10.0


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
        self.frames.collect(self._collected, gathers=True)
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
