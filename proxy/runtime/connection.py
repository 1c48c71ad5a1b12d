"""Two sockets and the session between them: asyncio protocols that carry bytes and know nothing of Kafka.

One write per read and direction (design D1); back-pressure by pausing the peer that sends to one that does not read.
Peers may leave by thousands within one poll of their sockets: at once nothing more is written to them, and the rest of
each end has its turn (decision 53).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from functools import partial
from ssl import SSLError
from typing import Any, Protocol, TypeVar

from kafka_sidecar.codec.errors import bare
from kafka_sidecar.plugins.effects import Need
from kafka_sidecar.proxy.relay.exchange import Closing, Send
from kafka_sidecar.proxy.relay.exchange_driver import Driver
from kafka_sidecar.proxy.relay.mute import Mute
from kafka_sidecar.proxy.relay.responses import OwnRequests
from kafka_sidecar.proxy.relay.session import Session
from kafka_sidecar.proxy.runtime.dialer import BrokerUnreachableError, Dial
from kafka_sidecar.proxy.runtime.logins import LoginDriver, Renewal
from kafka_sidecar.proxy.runtime.side import (
    MIN_CHUNK_BYTES,
    NOWHERE,
    Activity,
    Flow,
    Muting,
    Side,
    Writer,
    has_closed,
    read_directly,
    writer_of,
)
from kafka_sidecar.proxy.runtime.tasks import Paced, spawn
from kafka_sidecar.proxy.security.sasl.broker_logins import BrokerLogins
from kafka_sidecar.proxy.telemetry.tls_failures import explain_to

C = TypeVar("C", contravariant=True)  # what a connection is


log = logging.getLogger(__name__)

PAUSED = "a frame waits"  # reason to read no more of the peer that has sent it
CLIENT_CLOSED = Closing("client_closed", "the client closed its connection")

# Begins at once to do what an exchange needs: of which connection, whether for its request. Cancelled if not needed.
Perform = Callable[[Need, int, bool], asyncio.Future[Any]]


class Observer(Protocol[C]):
    """Is notified when a connection begins and ends. Where a reason is returned, the connection ends for it."""

    def began(self, connection: C) -> Closing | None: ...

    def spoke(self, chunk: bytes) -> Closing | None:
        """``chunk`` is the first that the client sends; no broker is connected yet."""
        ...

    def ended(self, connection: C, closing: Closing) -> None: ...


class ClientSide(Side):
    def __init__(self, connection: Connection) -> None:
        super().__init__(connection.window)
        self._connection = connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if self._connection.handshake is None:
            self._connection.client_came(transport.get_extra_info("peername"))

    def data_received(self, chunk: bytes) -> None:
        connection = self._connection
        if connection.to_broker is None:
            connection.came_early(chunk)
            return
        connection.bytes_from_client += len(chunk)
        session = connection.session
        try:
            out = session.from_client(chunk)
            if out:
                connection.to_broker.write(out)
            if session.due and connection.to_client is not None:
                connection.to_client.write(session.to_client())
            if session.agenda:
                connection.do_agenda()
            if len(chunk) >= MIN_CHUNK_BYTES:
                self.count_read(session.spent_s)
        except Exception as error:  # noqa: BLE001 - a bug must cost one connection, not the process
            connection.broke(error)
        if session.closing is not None:
            connection.end(session.closing)

    def pause_writing(self) -> None:
        self._connection.flow.client_is_slow()

    def resume_writing(self) -> None:
        self._connection.flow.client_reads_again()

    def eof_received(self) -> bool:
        """The client sends no more, but may still read without TLS, which ends both directions."""
        if not self.has_half_close:
            self._connection.client_sends_no_more()
            return False
        self._connection.ends.do(self._sends_no_more)
        return True

    def _sends_no_more(self) -> None:
        if not self._connection.client_sends_no_more():
            self.close()

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        connection = self._connection
        if connection.to_client is not None:
            connection.to_client = NOWHERE
        connection.ends.do(partial(self._ended, error))

    def let_go(self) -> None:
        """Its connection has ended: nothing comes after that."""
        del self._connection

    def _ended(self, error: Exception | None) -> None:
        connection = self._connection
        if connection.login is not None:
            connection.login.stop()
        connection.session.client_ended()
        if not connection.outlives_client():
            connection.lost("client_closed", CLIENT_CLOSED.detail, error)


class BrokerSide(Side):
    def __init__(self, connection: Connection) -> None:
        super().__init__(connection.window)
        self._connection = connection
        self._renewal: Renewal | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._connection.broker_came(self)

    def data_received(self, chunk: bytes) -> None:
        connection = self._connection
        if connection.to_client is None:
            return
        connection.bytes_from_broker += len(chunk)
        session = connection.session
        try:
            out = session.from_broker(chunk)
            if out:
                connection.to_client.write(out)
            if session.due and (own := session.to_client()):
                connection.to_client.write(own)
            if session.agenda:
                connection.do_agenda()
            if len(chunk) >= MIN_CHUNK_BYTES:
                read_directly(self, session.broker_frames)
                self.count_read(session.spent_s)
        except Exception as error:  # noqa: BLE001 - as above
            connection.broke(error)
        if session.closing is not None:
            connection.end(session.closing)

    def has_read(self, size: int) -> None:
        self._connection.bytes_from_broker += size

    def logged_in(self, logins: BrokerLogins, lifetime_s: float) -> None:
        """The sidecar has logged in on this connection; the broker ends it after this time."""
        self._renewal = Renewal(self._connection.session, logins, lifetime_s)

    def pause_writing(self) -> None:
        self._connection.client.pause("the broker reads slowly")

    def resume_writing(self) -> None:
        self._connection.client.resume("the broker reads slowly")

    def eof_received(self) -> bool:
        """The broker ends both directions when it closes one."""
        self._connection.ends.do(self.close)
        return self.has_half_close

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        connection = self._connection
        if connection.broker is self and connection.to_broker is not None:
            connection.to_broker = NOWHERE
        connection.ends.do(partial(self._ended, error))

    def _ended(self, error: Exception | None) -> None:
        connection = self._connection
        if self._renewal is not None:
            self._renewal.stop()
        if connection.broker is self:
            connection.session.broker_ended()
            if isinstance(error, SSLError):
                connection.lost("broker_tls_failed", explain_to("broker", error), None)
            else:
                connection.lost("broker_closed", "the broker closed its connection", error)


class Connection:
    """One client's connection, the broker's that belongs to it, and the session between them."""

    def __init__(
        self,
        number: int,
        session: Session,
        listener: str,
        dial: Dial,
        perform: Perform,
        observer: Observer[Connection],
        window: int,
        ends: Paced,
    ) -> None:
        """``ends``: gives what is done at the end of a side its turn, over all connections."""
        self.number = number
        self.session = session
        session.number = number
        self.listener = listener  # "bootstrap" or "node N"
        self.window = window
        self.client = ClientSide(self)
        self.flow = Flow(session.account, self.client)
        self.muting = Muting(self.client)
        self.broker: BrokerSide | None = None
        # Where bytes are written to; None before there is a broker, and once the connection ends.
        self.to_client: Writer | None = None
        self.to_broker: Writer | None = None
        self.bytes_from_client = 0
        self.bytes_from_broker = 0
        self._dial = dial
        self.perform = perform
        self._performing: dict[Driver, asyncio.Future[Any]] = {}  # what paused directions wait for
        self._observer = observer
        self.ends = ends
        self._early: list[bytes] = []  # what the client sent before the broker was connected
        self._early_bytes = 0
        self._dialling: asyncio.Task[None] | None = None
        self.login: LoginDriver | None = None  # to this sidecar
        self.handshake: asyncio.Task[None] | None = None  # of TLS with the client, while it lasts
        self._closing: Closing | None = None
        self._open_sides = 1
        self._is_reported = False
        self._in_flight_at_eof: int | None = None  # requests without a response when the client has sent its last byte
        self.began = time.monotonic()
        self.activity = Activity(self.began)
        self._peer: tuple[object, ...] | None = None

    @property
    def ip(self) -> str:
        """The client's address, without its port."""
        return str(self._peer[0]) if self._peer else ""

    @property
    def peer(self) -> str | None:
        """The client's address and port."""
        return f"{self.ip}:{self._peer[1]}" if self._peer else None

    @property
    def in_flight(self) -> int:
        """Requests without a response: now, or when the client has sent its last byte."""
        return self.session.in_flight if self._in_flight_at_eof is None else self._in_flight_at_eof

    @property
    def client_is_paused(self) -> bool:
        return self.client.is_paused

    @property
    def is_muted(self) -> bool:
        """Whether the client is not read for a rate limit."""
        return self.muting.is_on

    @property
    def broker_is_paused(self) -> bool:
        return self.broker is not None and self.broker.is_paused

    @property
    def is_paused(self) -> bool:
        """Whether one of its sides is not read."""
        return self.client.is_paused or (self.broker is not None and self.broker.is_paused)

    @property
    def is_dialling(self) -> bool:
        """Whether the client has sent something, and no broker is connected yet."""
        return bool(self._early)

    def client_came(self, peer: tuple[object, ...] | None) -> None:
        """``peer``: the client's address."""
        self._peer = peer
        self.session.host = self.ip or None
        refusal = self._observer.began(self)
        if refusal is not None:
            self.end(refusal)

    async def _reach_broker(self) -> None:
        try:
            await self._dial(lambda: BrokerSide(self), self.session.principal)
        except BrokerUnreachableError as error:
            self.end(Closing(error.cause, str(error)))
        except Exception as error:  # noqa: BLE001 - the client must not hang without a broker
            self.broke(error)
        finally:
            self._dialling = None

    def broker_came(self, broker: BrokerSide) -> None:
        if self._closing is not None:
            broker.close()  # came too late to be a side of this connection
            return
        self._open_sides += 1
        self._dialling = None  # nothing is left to cancel: a cancelled dial would lose the connection that it made
        self.broker = self.flow.broker = broker
        self.to_client, self.to_broker = writer_of(self.client.transport), writer_of(broker.transport)
        if log.isEnabledFor(logging.DEBUG):
            name = broker.transport.get_extra_info("peername") if broker.transport is not None else None
            address = f"{name[0]}:{name[1]}" if name else None
            log.debug("broker connected", extra={"session": self.number, "address": address})
        early, self._early = self._early, []
        for chunk in early:
            self.client.data_received(chunk)
        self.client.resume("no broker yet")
        if self._in_flight_at_eof is not None and not self._stays_open():
            self.end(CLIENT_CLOSED)
        self._end_without_client()

    def came_early(self, chunk: bytes) -> None:
        """A broker is dialled once the client has sent something: a probe of the port costs no broker a connection.

        A window of bytes is read before it is connected: TLS loses what is not read when the client resets its
        connection, as producers with acks=0 may do once they have sent all.
        """
        if self._closing is not None or (self.login is not None and not (chunk := self.login.feed(chunk))):
            return
        is_first = not self._early
        self._early.append(chunk)
        self._early_bytes += len(chunk)
        if self._early_bytes >= self.window:
            self.client.pause("no broker yet")
        if is_first:
            refusal = self._observer.spoke(chunk)
            if refusal is not None:
                self.end(refusal)
            else:
                self._dialling = spawn(self._reach_broker(), "dial")

    def client_sends_no_more(self) -> bool:
        """Whether something is still to come for the client, which has closed its direction only."""
        self.session.client_ended()
        if self.session.closing is not None or self._closing is not None:
            return False
        self._in_flight_at_eof = self.session.in_flight
        return bool(self._early) or self._stays_open()

    def _stays_open(self) -> bool:
        self._in_flight_at_eof = self.session.in_flight
        if self.session.awaits_responses and not self.session.incomplete[0]:
            self.session.finish(CLIENT_CLOSED)
            return True
        return False

    def outlives_client(self) -> bool:
        """Whether requests from before it closed have yet to be forwarded: producers with acks=0 do not wait."""
        if self._closing is not None or not (self._early or self.session.is_forwarding):
            return False
        self._open_sides -= 1
        self.flow.end()
        self.to_client = NOWHERE
        if not self._early:
            self._end_without_client()
        return True

    def _end_without_client(self) -> None:
        if self.to_client is NOWHERE:
            self.session.finish(CLIENT_CLOSED)  # in the time that clients have that send no more
            if not self.session.is_forwarding:
                self.end(CLIENT_CLOSED)

    def broke(self, error: BaseException) -> None:
        log.error("session crashed: this is a bug", exc_info=error)
        self.end(Closing("internal_error", repr(error)))
        bare(error)

    @property
    def client_has_gone(self) -> bool:
        """Whether the client has gone while something is done for it: without TLS it is not read then.

        With TLS it is, and what was read before it is forwarded: it has as long for that as without.
        """
        return bool(self._performing) and (self.to_client is NOWHERE or has_closed(self.client.transport))

    def do_agenda(self) -> None:
        """Do what the session asks for; what takes time pauses the peer that sent the frame, and no other."""
        agenda = self.session.agenda
        while agenda:
            item = agenda.pop(0)
            if isinstance(item, Mute):
                self.muting.begin(self.session.muted_s, self.session.muted_by)
            elif isinstance(item, OwnRequests):
                self._resume(item.driver, tuple(item.answers))
            elif isinstance(item.need, Send):
                frames = self.session.send(item, item.need)
                if self.to_broker is not None:
                    self.to_broker.writelines(frames)
            elif item.need is not None:
                if (sender := self._sender(item)) is not None:
                    sender.pause(PAUSED)
                is_request = self.session.is_request_driver(item)
                self._performing[item] = future = self.perform(item.need, self.number, is_request)
                future.add_done_callback(partial(self._performed, item))

    def _performed(self, driver: Driver, future: asyncio.Future[Any]) -> None:
        """Called in a turn of its own, so that a need that is met at once does not keep all others waiting."""
        if self._performing.get(driver) is not future or future.cancelled():
            return
        del self._performing[driver]
        error = future.exception()
        try:
            self._resume(driver, None if error else future.result(), error)
            self.do_agenda()
        except BaseException as bug:  # noqa: BLE001 - a client must not wait for ever, whatever broke in a thread
            self.broke(bug)
        finally:
            if error is not None:
                bare(error)  # raised in the exchange: it would keep its frames, and they the request
        if driver not in self._performing and (sender := self._sender(driver)) is not None:
            sender.resume(PAUSED)

    def _resume(self, driver: Driver, result: object, error: BaseException | None = None) -> None:
        """Let a direction go on with what it has waited for."""
        session = self.session
        out = session.resume(driver, result, error)
        to = self.to_broker if session.is_request_driver(driver) else self.to_client
        for piece in (*driver.take_left(), out):
            if piece and to is not None:
                to.write(piece)
        self.flow.has_written()
        if session.due and self.to_client is not None:
            self.to_client.write(session.to_client())
        if session.closing is not None:
            self.end(session.closing)
        self._end_without_client()

    def _sender(self, driver: Driver) -> Side | None:
        """The peer whose frames the driver gets."""
        return self.client if self.session.is_request_driver(driver) else self.broker

    def end(self, closing: Closing) -> None:
        """End both sides. The first reason given is the one that is reported."""
        if self._closing is None:
            self._closing = closing
        self.to_client = self.to_broker = None
        self.muting.end()
        for task in filter(None, (self._dialling, self.handshake)):
            task.cancel()
        performing, self._performing = self._performing, {}
        for future in performing.values():
            future.cancel()
        self.client.close()
        if self.broker is not None:
            self.broker.close()
        if not self._open_sides:
            self._ended(self._closing)

    @property
    def has_ended(self) -> bool:
        return self._closing is not None

    def lost(self, cause: str, detail: str, error: Exception | None) -> None:
        """A side has ended."""
        self._open_sides -= 1
        self.flow.end()
        self._lose_session(detail)
        self.end(self.session.closing or Closing(cause, f"{detail}: {error}" if error else detail))

    def _lose_session(self, why: str) -> None:
        try:
            for work in self.session.lost(why):
                self.perform(work, self.number, False)
        except Exception as bug:  # noqa: BLE001 - the other side must be closed all the same
            self.broke(bug)

    def _ended(self, closing: Closing) -> None:
        """Both sides have ended, or the only one that there was."""
        if not self._is_reported:
            self._is_reported = True
            self._lose_session(closing.detail)
            self._observer.ended(self, closing)
            self.broker = self.flow.broker = None
            # All circles end here: a collection that finds thousands of connections takes a tenth of a second.
            self.login = self.session.account.owner = None
            self.client.let_go()
