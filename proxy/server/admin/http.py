"""The admin port: one request at a time and in a turn of the event loop, whatever clients pipeline.

h11 parses; the pages are in pages.py. Beside the check of the host, a token may be needed.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import socket
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from ipaddress import ip_address
from itertools import chain
from pathlib import Path
from typing import Protocol, cast

import h11

from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.config.mistakes import ConfigError
from kafka_sidecar.proxy.config.reload import state_of
from kafka_sidecar.proxy.config.types import host_port
from kafka_sidecar.proxy.relay.exchange import Closing
from kafka_sidecar.proxy.runtime.admission import bind_socket
from kafka_sidecar.proxy.runtime.listener import Listener
from kafka_sidecar.proxy.runtime.tasks import Paced, spawn
from kafka_sidecar.proxy.runtime.tls_listener import STARTED_PER_TURN, TlsListener
from kafka_sidecar.proxy.security.tls.live_tls import LiveTls
from kafka_sidecar.proxy.server.admin.page import Page, Pages, Stream, is_open, json_page

log = logging.getLogger(__name__)

MIN_CHARS, MAX_BYTES = 16, 4096
MAX_CONNECTIONS = 64
# Not of this host: from there come a sidecar's application, its port-forwards, and in some clusters the probes too.
MAX_PER_ADDRESS = 8


class TokenError(ValueError):
    """The file cannot be used; one line with the remedy, without the token."""


class AdminToken:
    """The token of a file, read again when the file changes; where it cannot be used, the previous one stays."""

    def __init__(self, path: Path) -> None:
        """Raises TokenError."""
        self._path = path
        self._seen = state_of(path)
        self._token = _read(path)

    def allows(self, target: str, authorization: bytes | None) -> bool:
        """Whether a request may have its page. ``target``: path and query."""
        if is_open(target):
            return True
        kind, _, token = (authorization or b"").partition(b" ")
        return kind.lower() == b"bearer" and hmac.compare_digest(token.strip(), self._current())

    def _current(self) -> bytes:
        if (seen := state_of(self._path)) != self._seen and seen is not None:
            self._seen = seen
            try:
                self._token = _read(self._path)
                log.info("admin token applied", extra={"detail": str(self._path)})
            except TokenError as error:
                log.error("admin token rejected, the previous one stays applied", extra={"detail": str(error)})
        return self._token


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            token = file.read(MAX_BYTES).strip()
    except OSError as error:
        raise TokenError(f"{path} cannot be read: {error.strerror}; name a readable file") from None
    if len(token) < MIN_CHARS or b" " in token or not token.isascii():
        raise TokenError(f"{path} has no token: write at least {MIN_CHARS} ASCII characters without spaces into it")
    return token


MAX_REQUEST_BYTES = 16 << 10
METHODS = (b"GET", b"HEAD", b"PUT")
FIRST_REQUEST_S = 5.0  # from the start of a connection
TIME_LIMIT_S = 60.0  # for a further request, and for a response to be read
UNAUTHORIZED = json_page(401, {"error": "the request needs the token of admin.token_file: Authorization: Bearer TOKEN"})
# Of every response: a browser takes nothing for a script or a page that is none, and keeps nothing.
SAFE = (("x-content-type-options", "nosniff"), ("cache-control", "no-store"))
FOREIGN = json_page(403, {"error": "a web page of another site has sent this request"})
MAX_MISSED = 10  # snapshots that a slow reader misses one after the other before its stream ends
END = (h11.NEED_DATA, h11.PAUSED)  # events: no request is complete


class AdminServer:
    """Makes the protocols of the admin port's connections, which take places."""

    def __init__(self, admin: Pages, token: AdminToken | None = None) -> None:
        self.admin = admin
        self.token = token
        self.places = Places()
        self.turns = Paced(1)  # a page may take some 10 ms, and there are as many readers as places

    def protocol(self) -> AdminProtocol:
        return AdminProtocol(self)


class AdminProtocol(asyncio.Protocol):
    """One HTTP connection. With TLS it is also a `tls_listener.Accepted`, so that half a handshake has a place too."""

    def __init__(self, server: AdminServer) -> None:
        self._server = server
        self.ip = ""
        self.client = self
        self.handshake: asyncio.Task[None] | None = None  # of TLS, while it lasts
        self.secured: Callable[[asyncio.BaseTransport], None] | None = None
        self.has_ended = False
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_REQUEST_BYTES)
        self._transport: asyncio.Transport | None = None
        self._request: h11.Request | None = None
        self._asked_at = 0.0
        self._is_busy = False  # with a request
        self._limit: asyncio.TimerHandle | None = None
        self._stream: Stream | None = None
        self._missed = 0  # of the stream, one after the other

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(0)
        if self.handshake is None:
            self.client_came(transport.get_extra_info("peername"))
        self._restart_limit(FIRST_REQUEST_S)

    @property
    def transport(self) -> asyncio.Transport | None:
        return self._transport

    def client_came(self, peer: tuple[object, ...] | None) -> None:
        """``peer``: its address."""
        self.ip = str(peer[0]) if peer else ""
        self._server.places.enter(self)

    def give_way(self) -> None:
        self.has_ended = True
        if self.handshake is not None:
            self.handshake.cancel()
        self._abort()

    def end(self, closing: Closing) -> None:
        """The handshake has failed; there is no connection to end."""

    def connection_lost(self, error: Exception | None) -> None:
        self.has_ended = True
        self._server.places.leave(self)
        self._transport = None
        if self._stream is not None:
            self._stream.end(self)
        if self._limit is not None:
            self._limit.cancel()

    def data_received(self, data: bytes) -> None:
        if self._stream is not None:
            self._abort()  # a further request would never be answered
            return
        try:
            self._http.receive_data(data)
        except h11.RemoteProtocolError:
            self._close()
        else:
            self._advance()

    def resume_writing(self) -> None:
        asyncio.get_running_loop().call_soon(self._next)

    def _advance(self) -> None:
        """Go on to the end of the next request, and no further."""
        if self._is_busy or self._transport is None:
            return
        try:
            while not self._is_busy and (event := self._http.next_event()) not in END:
                if isinstance(event, h11.Request):
                    self._request = event
                elif isinstance(event, h11.EndOfMessage) and self._request is not None:
                    self._begin(self._request)
                elif isinstance(event, h11.ConnectionClosed):
                    self._close()
                    return
        except h11.RemoteProtocolError:
            self._close()

    def _begin(self, request: h11.Request) -> None:
        assert self._transport is not None
        self._is_busy = True
        self._server.places.works(self)
        self._transport.pause_reading()
        self._asked_at = time.monotonic()
        respond = partial(self._respond, request)
        wait_s = self._server.admin.wait_s(request.target.decode("ascii"))
        if wait_s:
            asyncio.get_running_loop().call_later(wait_s, self._server.turns.do, respond)
        else:
            self._server.turns.do(respond)

    def _respond(self, request: h11.Request) -> None:
        if self._transport is None:
            return
        headers = dict(request.headers)
        host = headers.get(b"host")
        if request.method not in METHODS or (request.method == b"PUT" and b"origin" in headers):
            self._send(request, json_page(405, {"error": "GET and HEAD only; PUT not from web pages"}))
            return
        target = request.target.decode("ascii")
        token = self._server.token
        if token is not None and not token.allows(target, headers.get(b"authorization")):
            self._send(request, UNAUTHORIZED)
            return
        if request.method == b"PUT":
            target = f"PUT {target}"
        page = self._server.admin.page(target, host.decode("latin-1") if host is not None else None, self._asked_at)
        if isinstance(page, Page):
            self._send(request, page)
        elif isinstance(page, Stream):
            self._begin_stream(request, page, is_foreign=headers.get(b"sec-fetch-site") == b"cross-site")
        else:
            spawn(self._send_later(request, page), "page of the admin port")

    async def _send_later(self, request: h11.Request, page: Awaitable[Page]) -> None:
        self._send(request, await page)

    def _send(self, request: h11.Request, page: Page) -> None:
        if self._transport is None:
            return
        length = ("content-length", str(len(page.body)))
        headers = [("content-type", page.content_type), length, *SAFE, *page.headers]
        self._server.admin.refusals.note(page.status, request.target.decode("ascii"), self.ip)
        if page is UNAUTHORIZED:
            headers.append(("www-authenticate", "Bearer"))
        out = self._http.send(h11.Response(status_code=page.status, headers=headers)) or b""
        out += self._http.send(h11.Data(data=page.body if request.method != b"HEAD" else b"")) or b""
        out += self._http.send(h11.EndOfMessage()) or b""
        self._transport.write(out)
        self._server.places.rests(self)
        if self._http.our_state is h11.MUST_CLOSE:
            self._transport.close()
            return
        self._http.start_next_cycle()
        self._restart_limit(TIME_LIMIT_S)
        if not self._transport.get_write_buffer_size():
            self.resume_writing()

    def _begin_stream(self, request: h11.Request, stream: Stream, is_foreign: bool) -> None:
        if is_foreign or request.method != b"GET":
            self._send(request, FOREIGN if is_foreign else Page(200, stream.content_type, b""))
            return
        assert self._transport is not None
        if self._limit is not None:
            self._limit.cancel()  # from now on, whoever does not read is found out by what it misses
        headers = [("content-type", stream.content_type), *SAFE]
        self._transport.write(self._http.send(h11.Response(status_code=200, headers=headers)) or b"")
        self._stream = stream
        self._transport.resume_reading()  # so that it is known when the reader leaves
        stream.begin(self)

    # As a `Viewer`

    @property
    def waits(self) -> bool:
        return self._transport is not None and bool(self._transport.get_write_buffer_size())

    def leave(self) -> None:
        if self._transport is None or self.waits:
            self._abort()
        else:
            self._transport.write(self._http.send(h11.EndOfMessage()) or b"")
            self._transport.close()

    def send(self, data: bytes) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        if not self._transport.get_write_buffer_size():
            self._missed = 0
            # A chunk, as h11 frames it, which takes as long for each as the rest of the sending.
            is_chunked = self._http.their_http_version != b"1.0"
            self._transport.writelines((b"%x\r\n" % len(data), data, b"\r\n") if is_chunked else (data,))
            return
        self._missed += 1
        if self._missed >= MAX_MISSED:
            self._abort()

    def _next(self) -> None:
        """The response has left."""
        if self._stream is not None or not self._is_busy or self._transport is None or self._transport.is_closing():
            return
        if self._transport.get_write_buffer_size():
            return  # of a later response than the one that has left
        self._is_busy = False
        self._transport.resume_reading()
        self._advance()

    def _restart_limit(self, limit_s: float) -> None:
        if self._limit is not None:
            self._limit.cancel()
        self._limit = asyncio.get_running_loop().call_later(limit_s, self._abort)

    def _abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _close(self) -> None:
        if self._transport is not None:
            self._transport.close()


DEFAULT_ADMIN = "127.0.0.1:9190"
HANDSHAKE_S = 5.0


def serve_admin(pages: Pages, config: Config, tls: LiveTls | None = None) -> tuple[Listener, str]:
    """Serve pages at the configured address, which is returned too. Raises ConfigError."""
    configured = config.admin.listen
    token = _token(config.admin.token_file)
    host, port = host_port(configured or DEFAULT_ADMIN)
    try:
        bound = bind_socket(host, port)
    except OSError as error:
        if configured is not None:
            raise ConfigError(
                f"admin.listen: {configured} cannot be bound: {error.strerror or error}; choose another"
            ) from error
        bound = bind_socket(host, 0)
        log.warning("default admin port in use", extra={"address": DEFAULT_ADMIN, "port": bound.getsockname()[1]})
    address = f"{host}:{bound.getsockname()[1]}"
    return _open(AdminServer(pages, token), bound, tls), address


def _open(server: AdminServer, bound: socket.socket, tls: LiveTls | None) -> Listener:
    if tls is None:
        return Listener(bound, server.protocol)
    live = tls

    def protocol() -> AdminProtocol:
        live.look()  # where workers serve clients, nothing else looks at the files
        return server.protocol()

    return TlsListener(bound, protocol, live, Paced(STARTED_PER_TURN), HANDSHAKE_S)


def check_token(path: Path | None) -> None:
    """Raises ConfigError if the file cannot be used."""
    _token(path)


def _token(path: Path | None) -> AdminToken | None:
    """Raises ConfigError."""
    try:
        return AdminToken(path) if path is not None else None
    except TokenError as error:
        raise ConfigError(f"admin.token_file: {error}") from error


class Occupant(Protocol):
    """A connection."""

    ip: str

    def give_way(self) -> None:
        """End at once: another one needs the place."""


class Places:
    """Those that are taken. Where one is needed, the connection goes that has been without a request for longest, or
    if all have one the connection whose request is the oldest: probes are answered at once, other pages may wait."""

    def __init__(self) -> None:
        self._taken: dict[Occupant, None] = {}
        self._by_ip: Counter[str] = Counter()
        self._resting: dict[Occupant, None] = {}  # those without a request, the longest first
        self._working: dict[Occupant, None] = {}  # the others, the one whose request is the oldest first

    def __len__(self) -> int:
        return len(self._taken)

    def enter(self, one: Occupant) -> None:
        """Take a place. Another one may have to give way."""
        if self._by_ip[one.ip] >= MAX_PER_ADDRESS and not _is_local(one.ip):
            self._remove(next(other for other in chain(self._resting, self._working) if other.ip == one.ip))
        if len(self._taken) >= MAX_CONNECTIONS:
            self._remove(next(chain(self._resting, self._working)))
        self._taken[one] = self._resting[one] = None
        self._by_ip[one.ip] += 1

    def works(self, one: Occupant) -> None:
        """A request has come."""
        if self._resting.pop(one, one) is None:
            self._working[one] = None

    def rests(self, one: Occupant) -> None:
        """The response is written."""
        if self._working.pop(one, one) is None:
            self._resting[one] = None

    def leave(self, one: Occupant) -> None:
        """It has ended."""
        if one in self._taken:
            del self._taken[one]
            self._resting.pop(one, None)
            self._working.pop(one, None)
            self._by_ip[one.ip] -= 1
            if not self._by_ip[one.ip]:
                del self._by_ip[one.ip]

    def _remove(self, one: Occupant) -> None:
        self.leave(one)
        one.give_way()


def _is_local(ip: str) -> bool:
    try:
        return ip_address(ip).is_loopback
    except ValueError:
        return False
