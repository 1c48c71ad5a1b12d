"""Connections that end by many in one moment: each has its turn, ends once, and for the reason that came first."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.dialogue import Dialogue, request, response

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.proxy.relay.exchange import Closing
from kafka_sidecar.proxy.runtime.connection import BrokerSide, Connection
from kafka_sidecar.proxy.runtime.tasks import Paced

COUNT = 4  # connections
ASKED, ANSWERED = request(ApiKey.HEARTBEAT, 3, 1), response(1, b"yes")


class Socket:
    def setsockopt(self, *_: object) -> None:
        pass


class Transport(asyncio.Transport):
    """As a loop's: its protocol hears of the end in a later turn, and once."""

    def __init__(self, side: asyncio.Protocol) -> None:
        super().__init__({"peername": ("192.0.2.1", 50000), "socket": Socket()})
        self.side = side
        self.is_lost = self.is_closed = self.has_ended = False
        side.connection_made(self)

    def write(self, data: Any) -> None:
        assert not self.is_lost, "written to after its end"

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def can_write_eof(self) -> bool:
        return True

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            asyncio.get_running_loop().call_soon(self._lose)

    def reset(self) -> None:
        """The peer is gone, and what it would have read with it."""
        self.close()

    def end_of_input(self) -> None:
        if not self.is_closed and not self.has_ended:
            self.has_ended = True
            if not self.side.eof_received():
                self.close()

    def say(self, data: bytes) -> None:
        if not self.is_closed and not self.has_ended:
            self.side.data_received(data)

    def _lose(self) -> None:
        assert not self.is_lost
        self.is_lost = True
        self.side.connection_lost(None)


class Crowd:
    """Some connections, each with its broker's, whose ends take turns."""

    def __init__(self, per_turn: int) -> None:
        self.ends = Paced(per_turn)
        self.endings: list[tuple[int, str]] = []
        self.connections = [
            Connection(at, Dialogue().session, "bootstrap", _never_dial, _never_perform, self, 1000, self.ends)
            for at in range(COUNT)
        ]
        self.clients = [Transport(one.client) for one in self.connections]
        self.brokers = [Transport(BrokerSide(one)) for one in self.connections]

    def began(self, connection: Connection) -> Closing | None:
        return None

    def spoke(self, chunk: bytes) -> Closing | None:
        return None

    def ended(self, connection: Connection, closing: Closing) -> None:
        self.endings.append((connection.number, closing.cause))

    async def over(self) -> None:
        """Wait until all that was begun is done."""
        for _ in range(10 * COUNT):
            await asyncio.sleep(0)

    async def end_all(self) -> None:
        for one in self.connections:
            one.end(Closing("drain", "the sidecar stops"))
        await self.over()


async def _never_dial(*_: object) -> None:
    raise AssertionError("all have a broker")


def _never_perform(*_: object) -> Any:
    raise AssertionError("nothing is waited for")


EVENTS: dict[str, Callable[[Crowd, int], None]] = {
    "client resets": lambda crowd, at: crowd.clients[at].reset(),
    "broker resets": lambda crowd, at: crowd.brokers[at].reset(),
    "client sends no more": lambda crowd, at: crowd.clients[at].end_of_input(),
    "broker sends no more": lambda crowd, at: crowd.brokers[at].end_of_input(),
    "client asks": lambda crowd, at: crowd.clients[at].say(ASKED),
    "broker answers": lambda crowd, at: crowd.brokers[at].say(ANSWERED),
    "client speaks another protocol": lambda crowd, at: crowd.clients[at].say(b"GET / HTTP/1.1\r\n\r\n"),
}
SWEPT = "is swept"
Event = tuple[str, int]


async def play(per_turn: int, turns: list[list[Event]]) -> list[tuple[int, str]]:
    """The ends that are reported, in their order. All of a turn happens within one poll of the sockets."""
    crowd = Crowd(per_turn)
    for turn in turns:
        for name, at in turn:
            if name == SWEPT:
                crowd.connections[at].end(Closing("idle", "no byte was sent"))
            else:
                EVENTS[name](crowd, at)
        await asyncio.sleep(0)
    await crowd.over()
    assert not crowd.ends.has_waiting
    await crowd.end_all()
    assert all(side.is_lost for side in (*crowd.clients, *crowd.brokers))
    return crowd.endings


def turns_of(names: list[str]) -> st.SearchStrategy[list[list[Event]]]:
    return st.lists(st.lists(st.tuples(st.sampled_from(names), st.integers(0, COUNT - 1)), max_size=6), max_size=6)


@given(turns_of([*EVENTS, SWEPT]), st.integers(1, 3))
def test_each_connection_ends_once_however_its_sides_end(turns: list[list[Event]], per_turn: int) -> None:
    endings = asyncio.run(play(per_turn, turns))
    assert sorted(number for number, _ in endings) == list(range(COUNT))


@given(turns_of([name for name in EVENTS if name.endswith(("resets", "no more"))]), st.integers(1, 3))
def test_the_reason_is_the_same_as_if_all_ended_at_once(turns: list[list[Event]], per_turn: int) -> None:
    """Where no more was asked: an end that waits is still the first reason."""
    paced, at_once = (dict(asyncio.run(play(number, turns))) for number in (per_turn, sys.maxsize))
    assert paced == at_once


async def test_connections_that_are_reset_together_end_in_their_order_some_in_a_turn() -> None:
    crowd = Crowd(1)
    for client in crowd.clients:
        client.reset()
    seen = []
    while len(crowd.endings) < COUNT:
        await asyncio.sleep(0)
        seen.append(sum(broker.is_closed for broker in crowd.brokers))
    assert [number for number, _ in crowd.endings] == list(range(COUNT))
    assert all(later - earlier <= 1 for earlier, later in pairwise(seen))


@pytest.mark.parametrize("side", ["clients", "brokers"])
async def test_sides_that_send_no_more_together_are_closed_some_in_a_turn(side: str) -> None:
    crowd = Crowd(1)
    leaving: list[Transport] = getattr(crowd, side)
    for one in leaving:
        one.end_of_input()
    assert sum(one.is_closed for one in leaving) == 1
    await crowd.over()
    assert len(crowd.endings) == COUNT


async def test_nothing_is_written_to_a_side_that_waits_for_its_end() -> None:
    """Its transport would take what comes, and say at the fifth time that the program is at fault."""
    crowd = Crowd(1)
    for at in range(COUNT):
        crowd.clients[at].say(ASKED)
        crowd.clients[at].reset()
    await asyncio.sleep(0)
    assert crowd.ends.has_waiting
    crowd.brokers[-1].say(ANSWERED)  # `Transport.write` would fail
    await crowd.over()
    assert [cause for _, cause in crowd.endings] == ["client_closed"] * COUNT
