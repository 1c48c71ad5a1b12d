"""Messages over a socket pair."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from support.in_process import config, until

from kafka_sidecar.proxy.config.workers import Place
from kafka_sidecar.proxy.server.admin.page import Page
from kafka_sidecar.proxy.server.workers.channel import (
    Alive,
    Applied,
    BrokersChanged,
    Channel,
    Drain,
    HangUp,
    Invalid,
    PageRequest,
    PageResponse,
    Prepared,
    Serve,
    Serving,
    Start,
)

CONFIG = config("127.0.0.1:1", workers=2).for_worker(Place(2, 2))
MESSAGES = [
    Start(CONFIG, Path("kafka-sidecar.yaml"), {"listen": None}, ("/plug-ins",), ((1, "kafka-1", 9092),), True),
    Serve(), HangUp(), Drain(), Drain(hurry=True), PageRequest("/metrics"), Prepared(), Serving(), Invalid(("a", "b")),
    Alive(), Applied(CONFIG), BrokersChanged(((1, "kafka-1", 9092),)),
    PageResponse(Page(200, "text/plain", b"x" * (1 << 20))),
]  # fmt: skip


class End:
    """One end, with what has come."""

    def __init__(self) -> None:
        self.received: list[object] = []
        self.ended = asyncio.Event()

    async def open(self, one: socket.socket) -> Channel:
        return await Channel.open(one, self.received.append, self.ended.set)


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[Channel, End, Channel, End]]:
    ends, sockets = (End(), End()), socket.socketpair()
    one, other = [await end.open(sock) for end, sock in zip(ends, sockets, strict=True)]
    yield one, ends[0], other, ends[1]
    await one.close()
    await other.close()


async def test_messages_arrive_in_order_and_equal() -> None:
    async with connected() as (one, _, _, there):
        for message in MESSAGES:
            one.send(message)
        await until(lambda: len(there.received) == len(MESSAGES))
        assert there.received == MESSAGES


async def test_a_worker_keeps_its_place_on_the_way() -> None:
    async with connected() as (one, _, _, there):
        one.send(MESSAGES[0])
        await until(lambda: there.received)
        (start,) = there.received
        assert isinstance(start, Start)
        assert start.config.worker == Place(2, 2)


async def test_a_message_that_comes_in_pieces_arrives_once() -> None:
    end, (ours, theirs) = End(), socket.socketpair()
    channel, sender = await end.open(ours), End()
    writing = await sender.open(theirs)
    size = len(channel.encode(Serve()))
    whole = channel.encode(Serve()) + channel.encode(Drain())
    for piece in (whole[:2], whole[2:7], whole[7 : size + 1], whole[size + 1 :]):
        channel.data_received(piece)
    assert end.received == [Serve(), Drain()]
    await writing.close()
    await channel.close()


async def test_the_end_of_one_side_is_known_at_the_other() -> None:
    async with connected() as (one, here, other, there):
        one.send(Drain())
        await one.close()
        async with asyncio.timeout(5):
            await there.ended.wait()
        assert there.received == [Drain()]
        assert here.ended.is_set()
        other.send(Alive())  # which no process reads


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_messages_are_values(message: object) -> None:
    assert message.__dataclass_params__.frozen  # type: ignore[attr-defined]
