"""A connection's two sides, played by transports that record what is done to them: order, pauses, ends."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any

import pytest
from support.dialogue import Dialogue, request, response

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.plugins.effects import Need
from kafka_sidecar.proxy.relay.exchange import Closing
from kafka_sidecar.proxy.relay.session import Session
from kafka_sidecar.proxy.runtime.connection import BrokerSide, Connection
from kafka_sidecar.proxy.runtime.dialer import BrokerUnreachableError
from kafka_sidecar.proxy.runtime.tasks import Paced

WINDOW = 1000
ASKED, ANSWERED = request(ApiKey.HEARTBEAT, 3, 1), response(1, b"yes")
TOO_NEW = request(ApiKey.API_VERSIONS, 9, 2, b"x")


class Transport(asyncio.Transport):
    """Takes everything; says that a write buffer is full or empty when the test wants it to."""

    def __init__(self, side: asyncio.Protocol) -> None:
        super().__init__({"peername": ("192.0.2.1", 50000), "socket": socket.socket()})
        self.get_extra_info("socket").close()
        self.side = side
        self.written: list[bytes] = []
        self.is_paused = False
        self.closed = False
        self.limit: int | None = None

    def write(self, data: Any) -> None:
        assert not self.closed, "written to after it was closed"
        self.written.append(data)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.limit = high

    def get_write_buffer_size(self) -> int:
        return 0

    def can_write_eof(self) -> bool:
        return True

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def end_of_input(self) -> None:
        """The peer sends no more: a loop closes what does not want to stay open for that."""
        if not self.side.eof_received():
            self.close()

    def lose(self, error: Exception | None = None) -> None:
        self.closed = True
        self.side.connection_lost(error)


class Observer:
    def __init__(self) -> None:
        self.began_: list[Connection] = []
        self.endings: list[Closing] = []
        self.refusal: Closing | None = None  # of a connection
        self.early_refusal: Closing | None = None  # of what a client says first

    def began(self, connection: Connection) -> Closing | None:
        self.began_.append(connection)
        return self.refusal

    def spoke(self, chunk: bytes) -> Closing | None:
        return self.early_refusal

    def ended(self, connection: Connection, closing: Closing) -> None:
        self.endings.append(closing)


class Wire:
    """A client that is connected, and a broker that is connected when the test says so."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, refusal: Closing | None = None, ends: Paced | None = None
    ) -> None:
        monkeypatch.setattr(socket.socket, "setsockopt", lambda *_: None)
        self.observer = Observer()
        self.observer.refusal = refusal
        self.dials = 0
        self.dialled: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.cancelled = False
        self.connection = Connection(
            1, Dialogue().session, "bootstrap", self._dial, self._perform, self.observer, WINDOW, ends or Paced(100)
        )
        self.client = Transport(self.connection.client)
        self.connection.client.connection_made(self.client)
        self.broker: Transport | None = None

    def _perform(self, need: Need, connection: int, is_request: bool) -> asyncio.Future[object]:
        raise AssertionError(f"{need} is not expected")

    async def _dial(self, factory: Callable[[], asyncio.Protocol], principal: str | None) -> None:
        self.dials += 1
        try:
            await self.dialled
        except asyncio.CancelledError:
            self.cancelled = True
            raise

    def broker_comes(self) -> Transport:
        side = BrokerSide(self.connection)
        self.broker = Transport(side)
        side.connection_made(self.broker)
        return self.broker

    def client_says(self, data: bytes) -> None:
        self.connection.client.data_received(data)

    def broker_says(self, data: bytes) -> None:
        assert self.broker is not None
        self.broker.side.data_received(data)

    @property
    def causes(self) -> list[str]:
        return [closing.cause for closing in self.observer.endings]


@pytest.fixture
async def wire(monkeypatch: pytest.MonkeyPatch) -> Wire:
    wire = Wire(monkeypatch)
    await asyncio.sleep(0)
    return wire


async def test_what_the_client_says_before_there_is_a_broker_waits_for_it(wire: Wire) -> None:
    wire.client_says(ASKED)
    broker = wire.broker_comes()
    assert broker.written == [ASKED]
    assert not wire.client.is_paused


async def test_a_broker_is_dialled_once_the_client_has_sent_something(wire: Wire) -> None:
    assert wire.dials == 0
    wire.client_says(ASKED[:3])
    await asyncio.sleep(0)
    assert wire.dials == 1


async def test_a_connection_that_is_refused_is_closed_and_its_end_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    wire = Wire(monkeypatch, refusal=Closing("too_many_connections", "why"))
    assert wire.client.closed
    wire.client.lose()
    assert wire.observer.endings == [Closing("too_many_connections", "why")]


async def test_first_bytes_that_are_refused_reach_no_broker(wire: Wire) -> None:
    wire.observer.early_refusal = Closing("connects_to_itself", "why")
    wire.client_says(ASKED)
    await asyncio.sleep(0)
    assert (wire.client.closed, wire.dials) == (True, 0)
    wire.client.lose()
    assert wire.causes == ["connects_to_itself"]


async def test_a_client_that_sends_no_more_gets_the_responses_to_what_it_has_sent(wire: Wire) -> None:
    broker = wire.broker_comes()
    wire.client_says(ASKED + ASKED)
    wire.client.end_of_input()
    assert not wire.client.closed
    wire.broker_says(ANSWERED)
    assert not wire.client.closed
    wire.broker_says(ANSWERED)
    assert wire.client.written == [ANSWERED, ANSWERED]
    assert (wire.client.closed, broker.closed) == (True, True)
    wire.client.lose()
    broker.lose()
    assert wire.causes == ["client_closed"]


async def test_a_client_that_sends_no_more_before_there_is_a_broker_gets_its_responses(wire: Wire) -> None:
    wire.client_says(ASKED)
    wire.client.end_of_input()
    assert not wire.client.closed
    broker = wire.broker_comes()
    assert broker.written == [ASKED]
    wire.broker_says(ANSWERED)
    assert wire.client.written == [ANSWERED]
    assert wire.client.closed


@pytest.mark.parametrize("sent", [b"", ASKED[:9], b"GET / HTTP/1.1\r\n\r\n"])
async def test_a_client_that_sends_no_more_and_awaits_nothing_is_closed(wire: Wire, sent: bytes) -> None:
    wire.broker_comes()
    if sent:
        wire.client_says(sent)
    wire.client.end_of_input()
    assert wire.client.closed


async def test_a_client_that_says_nothing_is_not_paused(wire: Wire) -> None:
    assert not wire.client.is_paused
    wire.broker_comes()
    assert not wire.client.is_paused


async def test_one_write_per_read_in_both_directions(wire: Wire) -> None:
    broker = wire.broker_comes()
    wire.client_says(ASKED * 5)
    wire.broker_says(ANSWERED * 5)
    assert (broker.written, wire.client.written) == ([ASKED * 5], [ANSWERED * 5])


async def test_nothing_is_written_where_nothing_leaves(wire: Wire) -> None:
    broker = wire.broker_comes()
    wire.client_says(ASKED[:5])
    wire.client_says(TOO_NEW[:0])
    assert (broker.written, wire.client.written) == ([], [])


async def test_an_answer_of_the_sidecars_own_reaches_the_client_at_once(wire: Wire) -> None:
    broker = wire.broker_comes()
    wire.client_says(TOO_NEW)
    assert broker.written == []
    assert len(wire.client.written) == 1


async def test_both_buffers_have_the_window_as_their_limit(wire: Wire) -> None:
    assert (wire.client.limit, wire.broker_comes().limit) == (WINDOW, WINDOW)


async def test_a_slow_client_pauses_the_broker_and_itself(wire: Wire) -> None:
    broker = wire.broker_comes()
    wire.connection.client.pause_writing()
    assert (broker.is_paused, wire.client.is_paused) == (True, True)
    wire.connection.client.resume_writing()
    assert (broker.is_paused, wire.client.is_paused) == (False, False)


async def test_a_slow_broker_pauses_the_client_only(wire: Wire) -> None:
    broker = wire.broker_comes()
    assert wire.connection.broker is not None
    wire.connection.broker.pause_writing()
    assert (broker.is_paused, wire.client.is_paused) == (False, True)
    wire.connection.broker.resume_writing()
    assert not wire.client.is_paused


async def test_reading_goes_on_only_when_every_reason_to_pause_is_gone(wire: Wire) -> None:
    wire.broker_comes()
    assert wire.connection.broker is not None
    wire.connection.client.pause_writing()
    wire.connection.broker.pause_writing()
    wire.connection.client.resume_writing()
    assert wire.client.is_paused
    wire.connection.broker.resume_writing()
    assert not wire.client.is_paused


@pytest.mark.parametrize(("leaver", "cause"), [("client", "client_closed"), ("broker", "broker_closed")])
async def test_when_one_side_disconnects_the_other_is_closed_and_the_end_reported_once(
    wire: Wire, leaver: str, cause: str
) -> None:
    broker = wire.broker_comes()
    first, second = (wire.client, broker) if leaver == "client" else (broker, wire.client)
    first.lose()
    assert second.closed
    assert wire.causes == []
    second.lose()
    assert wire.causes == [cause]


async def test_the_reason_for_a_lost_connection_is_reported(wire: Wire) -> None:
    wire.broker_comes().lose(ConnectionResetError(104, "Connection reset by peer"))
    wire.client.lose()
    assert wire.observer.endings == [
        Closing("broker_closed", "the broker closed its connection: [Errno 104] Connection reset by peer")
    ]


async def test_a_session_that_wants_to_end_ends_both_sides_and_nothing_more_passes(wire: Wire) -> None:
    broker = wire.broker_comes()
    wire.client_says(ASKED + request(999, 0, 1))
    assert (broker.written, broker.closed, wire.client.closed) == ([ASKED], True, True)
    wire.client_says(ASKED)
    wire.broker_says(ANSWERED)
    broker.lose()
    wire.client.lose()
    assert wire.causes == ["unsupported_api"]


async def test_a_session_that_ends_in_bytes_from_before_the_broker_is_reported(
    wire: Wire,
) -> None:
    wire.client_says(b"GET / HTTP/1.1\r\n\r\n")
    broker = wire.broker_comes()
    assert broker.written == []
    broker.lose()
    wire.client.lose()
    assert wire.causes == ["not_kafka"]


async def test_requests_of_a_client_that_leaves_while_the_broker_is_dialled_reach_it(wire: Wire) -> None:
    """A producer with acks=0 closes once it has sent all; with TLS nothing is left of its connection then."""
    wire.client_says(ASKED)
    wire.client_says(ASKED)
    await asyncio.sleep(0)
    wire.client.lose()
    assert wire.causes == []
    broker = wire.broker_comes()
    assert broker.written == [ASKED, ASKED]
    assert broker.closed
    broker.lose()
    assert wire.causes == ["client_closed"]


async def test_a_client_that_leaves_without_a_whole_request_ends_its_connection(wire: Wire) -> None:
    wire.client_says(ASKED[:7])
    await asyncio.sleep(0)
    wire.client.lose()
    broker = wire.broker_comes()
    assert broker.written == []
    assert broker.closed
    broker.lose()
    assert wire.causes == ["client_closed"]


async def test_a_request_that_is_held_when_its_client_leaves_is_waited_for_and_no_longer(
    wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire.client_says(ASKED)
    broker = wire.broker_comes()
    monkeypatch.setattr(Session, "is_forwarding", True)
    wire.client.lose()
    assert not broker.closed
    assert wire.connection.session.finishing is not None  # the sweep ends it if nothing comes
    monkeypatch.setattr(Session, "is_forwarding", False)
    wire.broker_says(ANSWERED)
    assert broker.closed
    broker.lose()
    assert wire.causes == ["client_closed"]


async def test_a_broker_that_is_not_reached_after_its_client_has_left_is_reported_once(wire: Wire) -> None:
    wire.client_says(ASKED)
    wire.client.lose()
    wire.dialled.set_exception(BrokerUnreachableError("connect_timeout", "broker-1:9092: timed out"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert wire.causes == ["connect_timeout"]


async def test_a_client_is_read_until_a_window_is_full_while_the_broker_is_dialled(wire: Wire) -> None:
    for _ in range(WINDOW // len(ASKED)):
        wire.client_says(ASKED)
        assert not wire.client.is_paused
    wire.client_says(ASKED)
    assert wire.client.is_paused
    wire.broker_comes()
    assert not wire.client.is_paused


async def test_a_broker_that_connects_too_late_is_closed_and_the_end_reported_once(wire: Wire) -> None:
    """The dial may have made its connection just before it was cancelled."""
    wire.client.lose()
    broker = wire.broker_comes()
    assert broker.closed
    broker.lose()
    assert wire.causes == ["client_closed"]


async def test_a_broker_that_cannot_be_reached_ends_the_connection_with_its_cause(wire: Wire) -> None:
    wire.client_says(ASKED)
    wire.dialled.set_exception(BrokerUnreachableError("connect_timeout", "broker-1:9092: timed out"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert wire.client.closed
    wire.client.lose()
    assert wire.observer.endings == [Closing("connect_timeout", "broker-1:9092: timed out")]


async def test_a_bug_in_the_dialling_costs_one_connection(wire: Wire) -> None:
    wire.client_says(ASKED)
    wire.dialled.set_exception(KeyError("oops"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    wire.client.lose()
    assert wire.causes == ["internal_error"]


@pytest.mark.parametrize("direction", ["from_client", "from_broker"])
async def test_a_bug_in_the_session_costs_one_connection(wire: Wire, direction: str) -> None:
    broker = wire.broker_comes()

    def oops(chunk: bytes) -> bytes:
        raise KeyError("oops")

    wire.connection.session = type("Broken", (), {direction: staticmethod(oops), "closing": None})()
    (wire.client_says if direction == "from_client" else wire.broker_says)(ASKED)
    assert wire.client.closed
    assert broker.closed
