"""Two sockets and the session between them: asyncio protocols that carry bytes and know nothing of Kafka.

One write per read and direction (design D1); back-pressure by pausing the peer that sends to one that does not read.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Protocol, cast

from kafka_sidecar.proxy.relay.exchange import Need, Send
from kafka_sidecar.proxy.relay.exchange_driver import Driver
from kafka_sidecar.proxy.relay.own_requests import OwnRequests
from kafka_sidecar.proxy.relay.session import Closing, Session
from kafka_sidecar.proxy.runtime.tasks import spawn

log = logging.getLogger(__name__)

LINGER_S = 10.0  # how long what is already written may take to reach a peer once its connection is being closed
PAUSED = "a frame waits"  # reason to read no more of the peer that has sent it


class BrokerUnreachableError(Exception):
    """No broker could be connected to; ``cause`` is a label value of kafka_sidecar_disconnects_total."""

    def __init__(self, cause: str, detail: str) -> None:
        super().__init__(detail)
        self.cause = cause


# Begins at once to do what an exchange needs: of which connection, and whether for its request. Cancelled if its result
# is no longer needed.
Perform = Callable[[Need, int, bool], asyncio.Future[Any]]
# Connects the protocol that it is given to a broker. Raises BrokerUnreachableError.
Dial = Callable[[Callable[[], asyncio.Protocol]], Awaitable[None]]


class Observer(Protocol):
    """Is notified when a connection begins and ends."""

    def began(self, connection: Connection) -> None: ...

    def ended(self, connection: Connection, closing: Closing) -> None: ...


class Side(asyncio.Protocol):
    """One of the two sockets. It is read only while there is no reason to pause it."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._reasons: set[str] = set()
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(self._connection.window)
        self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    def pause(self, reason: str) -> None:
        if self.transport is not None and not self._reasons:
            self.transport.pause_reading()
        self._reasons.add(reason)

    def resume(self, reason: str) -> None:
        self._reasons.discard(reason)
        if self.transport is not None and not self._reasons and not self.transport.is_closing():
            self.transport.resume_reading()

    def close(self) -> None:
        """Send what is written, then end; but do not wait for ever for a peer that does not read."""
        if self.transport is not None and not self.transport.is_closing():
            self.transport.close()
            if self.transport.get_write_buffer_size():
                asyncio.get_running_loop().call_later(LINGER_S, self._abort)

    def _abort(self) -> None:
        if self.transport is not None:
            self.transport.abort()


class ClientSide(Side):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._connection.client_came()

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
        except Exception as error:  # noqa: BLE001 - a bug must cost one connection, not the process
            connection.broke(error)
        if session.closing is not None:
            connection.end(session.closing)

    def pause_writing(self) -> None:
        self._connection.client_is_slow()

    def resume_writing(self) -> None:
        self._connection.client_reads_again()

    def connection_lost(self, error: Exception | None) -> None:
        self.transport = None
        self._connection.session.client_ended()
        self._connection.lost("client_closed", "the client closed its connection", error)


class BrokerSide(Side):
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
            if session.agenda:
                connection.do_agenda()
        except Exception as error:  # noqa: BLE001 - as above
            connection.broke(error)
        if session.closing is not None:
            connection.end(session.closing)

    def pause_writing(self) -> None:
        self._connection.client.pause("the broker reads slowly")

    def resume_writing(self) -> None:
        self._connection.client.resume("the broker reads slowly")

    def connection_lost(self, error: Exception | None) -> None:
        self.transport = None
        if self._connection.broker is self:
            self._connection.session.broker_ended()
            self._connection.lost("broker_closed", "the broker closed its connection", error)


class Connection:
    """One client's connection, the broker's that belongs to it, and the session between them."""

    def __init__(
        self,
        number: int,
        session: Session,
        listener: str,
        dial: Dial,
        perform: Perform,
        observer: Observer,
        window: int,
    ) -> None:
        self.number = number
        self.session = session
        session.number = number
        self.listener = listener  # "bootstrap" or "node N"
        self.window = window
        self.client = ClientSide(self)
        self.broker: BrokerSide | None = None
        # Where bytes are written to; None before there is a broker, and once the connection ends.
        self.to_client: asyncio.Transport | None = None
        self.to_broker: asyncio.Transport | None = None
        self.bytes_from_client = 0
        self.bytes_from_broker = 0
        self._dial = dial
        self._perform = perform
        self._performing: dict[Driver, asyncio.Future[Any]] = {}  # what paused directions wait for
        self._observer = observer
        self._early: list[bytes] = []  # what the client sent before the broker was connected
        self._dialling: asyncio.Task[None] | None = None
        self._closing: Closing | None = None
        self._open_sides = 1
        self._began = 0.0
        self._peer: tuple[object, ...] | None = None

    def client_came(self) -> None:
        self._began = time.monotonic()
        transport = self.client.transport
        self._peer = transport.get_extra_info("peername") if transport is not None else None
        self._observer.began(self)
        self._dialling = spawn(self._reach_broker(), "dial")

    async def _reach_broker(self) -> None:
        try:
            await self._dial(lambda: BrokerSide(self))
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
        self.broker = broker
        self.to_client, self.to_broker = self.client.transport, broker.transport
        early, self._early = self._early, []
        for chunk in early:
            self.client.data_received(chunk)
        self.client.resume("no broker yet")

    def came_early(self, chunk: bytes) -> None:
        """Reading cannot be paused in connection_made, so the first chunk may come before there is a broker."""
        if self._closing is None:
            self._early.append(chunk)
            self.client.pause("no broker yet")

    def broke(self, error: BaseException) -> None:
        log.error("session crashed: this is a bug", exc_info=error)
        self.end(Closing("internal_error", repr(error)))

    def do_agenda(self) -> None:
        """Do what the session asks for; what takes time pauses the peer that sent the frame, and no other."""
        agenda = self.session.agenda
        while agenda:
            item = agenda.pop(0)
            if isinstance(item, OwnRequests):
                self._resume(item.driver, tuple(item.answers))
            elif isinstance(item.need, Send):
                frames = self.session.send(item, item.need)
                if self.to_broker is not None:
                    self.to_broker.write(frames)
            elif item.need is not None:
                self._pause_sender(item)
                is_request = self.session.is_request_driver(item)
                self._performing[item] = future = self._perform(item.need, self.number, is_request)
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
        if driver not in self._performing:
            self._resume_sender(driver)

    def _resume(self, driver: Driver, result: object, error: BaseException | None = None) -> None:
        """Let a direction go on with what it has waited for."""
        session = self.session
        out = session.resume(driver, result, error)
        to = self.to_broker if session.is_request_driver(driver) else self.to_client
        if out and to is not None:
            to.write(out)
        if session.due and self.to_client is not None:
            self.to_client.write(session.to_client())
        if session.closing is not None:
            self.end(session.closing)

    def _pause_sender(self, driver: Driver) -> None:
        if self.session.is_request_driver(driver):
            self.client.pause(PAUSED)
        else:
            self._pause_broker(PAUSED)

    def _resume_sender(self, driver: Driver) -> None:
        if self.session.is_request_driver(driver):
            self.client.resume(PAUSED)
        else:
            self._resume_broker(PAUSED)

    def client_is_slow(self) -> None:
        # The client too is no longer read: its requests could make answers of our own without end.
        self.client.pause("the client reads slowly")
        self._pause_broker("the client reads slowly")

    def client_reads_again(self) -> None:
        self.client.resume("the client reads slowly")
        self._resume_broker("the client reads slowly")

    def _pause_broker(self, reason: str) -> None:
        if self.broker is not None:
            self.broker.pause(reason)

    def _resume_broker(self, reason: str) -> None:
        if self.broker is not None:
            self.broker.resume(reason)

    def end(self, closing: Closing) -> None:
        """End both sides. The first reason given is the one that is reported."""
        if self._closing is None:
            self._closing = closing
        self.to_client = self.to_broker = None
        if self._dialling is not None:
            self._dialling.cancel()
        performing, self._performing = self._performing, {}
        for future in performing.values():
            future.cancel()
        self.client.close()
        if self.broker is not None:
            self.broker.close()

    def lost(self, cause: str, detail: str, error: Exception | None) -> None:
        self._open_sides -= 1
        try:
            for work in self.session.lost(detail):
                self._perform(work, self.number, False)
        except Exception as bug:  # noqa: BLE001 - the other side must be closed all the same
            self.broke(bug)
        self.end(self.session.closing or Closing(cause, f"{detail}: {error}" if error else detail))
        if not self._open_sides and self._closing is not None:
            self._observer.ended(self, self._closing)
            self.broker = None

    def summary(self, closing: Closing) -> dict[str, object]:
        """The connection in one log line."""
        session = self.session
        return {
            "session": self.number,
            "listener": self.listener,
            "client": f"{self._peer[0]}:{self._peer[1]}" if self._peer else None,
            "client_id": session.client_id,
            "client_software": session.client_software,
            "duration_s": round(time.monotonic() - self._began, 3),
            "requests": session.requests,
            "responses": session.responses,
            "in_flight": session.in_flight,
            "bytes_from_client": self.bytes_from_client,
            "bytes_from_broker": self.bytes_from_broker,
            "cause": closing.cause,
            "detail": closing.detail,
        }
