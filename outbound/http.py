"""A blocking HTTP client for one server at one or several addresses, whose every request has a deadline and a size.

A server that sends one byte a second is no longer waited for than one that sends none. Redirects are not followed, and
no proxy is taken from the environment: requests have credentials, and go where the configuration says.
"""

from __future__ import annotations

import logging
import math
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPException, RemoteDisconnected
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError

from kafka_sidecar import __version__

MAX_CONNECT_S = 1.0  # to one IP address, so that others are tried in time
LOOK_S = 1.0  # between two looks at the files of TLS
MAX_REASON = 120  # characters of what a library says
USER_AGENT = f"kafka-sidecar/{__version__}"
CLOSED = (RemoteDisconnected, ConnectionResetError, BrokenPipeError)

log = logging.getLogger(__name__)


class OutboundError(OSError):
    """There is no usable response; one line with the address and the reason, without secrets."""

    def __init__(self, text: str, outcome: str) -> None:
        super().__init__(text)
        self.outcome = outcome  # "unreachable", "timeout", "unavailable" (an error of the server), "invalid"

    def __str__(self) -> str:
        return str(self.args[0])


@dataclass(frozen=True, slots=True)
class Response:
    status: int
    body: bytes
    url: str  # of the address that has responded


@dataclass(frozen=True, slots=True)
class ClientTls:
    """Whom the client trusts, and what it presents: paths of PEM files."""

    ca: str | None = None  # None: the certificates of the system
    certificate: str | None = None
    key: str | None = None  # None: it is in the file of the certificate
    key_password_file: str | None = None

    @property
    def files(self) -> list[str]:
        return [path for path in (self.ca, self.certificate, self.key, self.key_password_file) if path is not None]

    def context(self) -> ssl.SSLContext:
        """At least TLS 1.2, and the certificate must name the host. Raises ValueError: "setting: file: reason"."""
        context = ssl.create_default_context()
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.sslsocket_class = _TlsSocket
        if self.ca is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # no other certificate is trusted
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            context.sslsocket_class = _TlsSocket
            _read("ca", self.ca, lambda: context.load_verify_locations(self.ca))
        if self.certificate is not None:
            certificate = self.certificate
            _read("certificate", certificate, lambda: context.load_cert_chain(certificate, self.key, self._password))
        return context

    def _password(self) -> bytes:
        """Called for a key that is encrypted: without it OpenSSL would ask at the terminal."""
        if self.key_password_file is None:
            raise ValueError("the key is encrypted: set key_password_file")
        return Path(self.key_password_file).read_bytes().rstrip(b"\r\n")


def _read(setting: str, path: str, load: Callable[[], None]) -> None:
    try:
        load()
    except ssl.SSLError as error:
        reason = (error.reason or "no PEM").lower().replace("_", " ")
        raise ValueError(f"{setting}: {path} cannot be used: {reason}; write certificate and key in PEM") from None
    except OSError as error:
        raise ValueError(f"{setting}: {path} cannot be read: {error.strerror}; name a readable file") from None
    except ValueError as error:
        raise ValueError(f"{setting}: {path} cannot be used: {error}") from None


class _Deadline(threading.local):
    """When the request of this thread has to be over."""

    at = math.inf

    @property
    def left(self) -> float:
        """Seconds. Raises TimeoutError."""
        left = self.at - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return min(left, threading.TIMEOUT_MAX)


_deadline = _Deadline()


class _Socket(socket.socket):
    """A socket each of whose calls ends at the deadline: the time limit of a socket alone is for one read of many."""

    def recv_into(self, *args: Any, **more: Any) -> int:
        self.settimeout(_deadline.left)
        return super().recv_into(*args, **more)

    def sendall(self, *args: Any, **more: Any) -> None:
        self.settimeout(_deadline.left)
        super().sendall(*args, **more)


class _TlsSocket(ssl.SSLSocket):
    def recv_into(self, *args: Any, **more: Any) -> int:
        self.settimeout(_deadline.left)
        return super().recv_into(*args, **more)

    def send(self, *args: Any, **more: Any) -> int:
        self.settimeout(_deadline.left)
        return super().send(*args, **more)


def _connect(host: str, port: int) -> socket.socket:
    failed: OSError | None = None
    for family, kind, protocol, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        made = _Socket(family, kind, protocol)
        try:
            made.settimeout(min(_deadline.left, MAX_CONNECT_S))
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            made.connect(address)
            made.settimeout(_deadline.left)  # of the handshake, which is one call
        except OSError as error:
            made.close()
            failed = error
        else:
            return made
    raise failed or OSError("its name has no address")


class _Plain(HTTPConnection):
    def _new_conn(self) -> socket.socket:
        return _connect(self._dns_host, self.port or 80)


class _Secure(HTTPSConnection):
    def _new_conn(self) -> socket.socket:
        return _connect(self._dns_host, self.port or 443)


class _PlainPool(urllib3.HTTPConnectionPool):
    ConnectionCls = _Plain


class _SecurePool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _Secure


class HttpClient:
    """One server. Threads may share it; each request blocks its thread, at most until its deadline."""

    def __init__(
        self, urls: Sequence[str], timeout_s: float, max_bytes: int, tls: ClientTls = ClientTls(),
        connections: int = 1,
    ) -> None:  # fmt: skip
        """Raises ValueError if a file of TLS cannot be used.

        Args:
            urls: of its addresses; paths of requests are appended to them.
            timeout_s: of a request to one address.
            max_bytes: of a response.
            connections: that are kept open, to each address.
        """
        self._urls = list(urls)
        self._timeout_s = timeout_s
        self._max_bytes = max_bytes
        self._tls = tls
        self._connections = connections
        self._is_secure = any(url.lower().startswith("https:") for url in urls)
        self._lock = threading.Lock()
        self._seen = _states(tls.files)
        self._looked_at = time.monotonic()
        self._pools = self._open()

    def _open(self) -> Mapping[str, urllib3.HTTPConnectionPool]:
        context = self._tls.context() if self._is_secure else None
        return {url: self._pool(url, context) for url in self._urls}

    def _pool(self, url: str, context: ssl.SSLContext | None) -> urllib3.HTTPConnectionPool:
        parts = urlsplit(url)
        host = parts.hostname or ""
        if parts.scheme.lower() == "https":
            return _SecurePool(host, parts.port, maxsize=self._connections, ssl_context=context)
        return _PlainPool(host, parts.port, maxsize=self._connections)

    def close(self) -> None:
        for pool in self._pools.values():
            pool.close()

    def request(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None = None, until: float = math.inf
    ) -> Response:
        """The response of the first address that has one; the address that has responded is the first one from then on.

        Args:
            path: with its query; empty, or begins with a slash or a question mark.
            until: no address is waited for any longer than this; seconds of `time.monotonic`.

        Raises:
            OutboundError: none has responded, or all of them with an error of their own.
        """
        self._look_at_files()
        failed: OutboundError | None = None
        for url in tuple(self._urls):
            if failed is not None and time.monotonic() >= until:
                break
            try:
                response = self._ask(url, method, path, headers, body, until)
                if response.status >= 500 or response.status == 429:
                    raise OutboundError(f"{url} responds with {response.status}", "unavailable")
            except OutboundError as error:
                failed = error
                continue
            self._put_first(url)
            return response
        assert failed is not None
        raise failed

    def _put_first(self, url: str) -> None:
        with self._lock:
            if self._urls[0] != url:
                self._urls.remove(url)
                self._urls.insert(0, url)

    def _ask(
        self, url: str, method: str, path: str, headers: Mapping[str, str], body: bytes | None, until: float
    ) -> Response:
        _deadline.at = min(time.monotonic() + self._timeout_s, until)
        whole = _target(url, path)
        sent = {"User-Agent": USER_AGENT, "Accept-Encoding": "identity", **headers}
        try:
            try:
                return self._exchange(url, method, whole, sent, body)
            except (HTTPError, *CLOSED) as error:
                if not isinstance(_root(error), CLOSED):
                    raise
                # A connection that was kept open, and that the server has closed meanwhile: once more, on a new one.
                return self._exchange(url, method, whole, sent, body)
        except (HTTPError, HTTPException, OSError, ValueError) as error:
            raise _explain(url, error, self._timeout_s) from None

    def _exchange(self, url: str, method: str, path: str, headers: Mapping[str, str], body: bytes | None) -> Response:
        left = _deadline.left
        response = self._pools[url].urlopen(
            method, path, body, headers, retries=False, redirect=False, timeout=left, preload_content=False,
            decode_content=False,
        )  # fmt: skip
        try:
            data = b""
            while piece := response.read(self._max_bytes + 1 - len(data)):  # a read may be short, and then not complete
                data += piece
                if len(data) > self._max_bytes:
                    raise OutboundError(f"{url} responds with more than {self._max_bytes} bytes", "invalid")
        except BaseException:
            response.close()
            raise
        response.release_conn()
        return Response(response.status, data, url)

    def _look_at_files(self) -> None:
        """Connect with renewed certificates; where they cannot be used, the previous ones stay."""
        now = time.monotonic()
        with self._lock:
            if now - self._looked_at < LOOK_S:
                return
            self._looked_at = now
            seen = _states(self._tls.files)
            if seen == self._seen:
                return
            self._seen = seen
            try:
                self._pools, old = self._open(), self._pools
            except ValueError as error:
                log.error("certificates rejected, the previous ones stay applied", extra={"detail": str(error)})
                return
        for pool in old.values():
            pool.close()


def _target(url: str, path: str) -> str:
    parts = urlsplit(url)
    if path:
        return parts.path.rstrip("/") + path
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def _states(files: Sequence[str]) -> list[tuple[int, int, int] | None]:
    return [_state(path) for path in files]


def _state(path: str) -> tuple[int, int, int] | None:
    with suppress(OSError):
        found = Path(path).stat()
        return found.st_mtime_ns, found.st_ino, found.st_size
    return None


def _root(error: BaseException) -> BaseException:
    """What has happened, below what urllib3 has made of it."""
    seen: set[int] = set()
    while id(error) not in seen:
        seen.add(id(error))
        inside = [arg for arg in error.args if isinstance(arg, BaseException)] if isinstance(error, HTTPError) else []
        cause = (
            inside[-1] if inside else error.__cause__ or (error.__context__ if isinstance(error, HTTPError) else None)
        )
        if cause is None or not isinstance(cause, OSError | HTTPException | HTTPError):
            return error
        error = cause
    return error


def _explain(url: str, error: BaseException, timeout_s: float) -> OutboundError:
    root = _root(error)
    if isinstance(root, OutboundError):
        return root
    if isinstance(root, TimeoutError) or isinstance(error, urllib3.exceptions.TimeoutError):
        return OutboundError(f"{url} has not responded within {timeout_s:g} s", "timeout")
    if isinstance(root, ssl.SSLCertVerificationError):
        reason = f"its certificate is not valid: {root.verify_message}"
        return OutboundError(f"{url} cannot be reached: {reason[:MAX_REASON]}", "unreachable")
    if isinstance(root, ssl.SSLError):
        reason = (root.reason or "TLS failed").lower().replace("_", " ")
        return OutboundError(f"{url} cannot be reached: {reason[:MAX_REASON]}", "unreachable")
    if isinstance(root, RemoteDisconnected | ConnectionError):
        reason = root.strerror if isinstance(root, OSError) and root.strerror else "it closes the connection"
        return OutboundError(f"{url} cannot be reached: {reason}", "unreachable")
    if isinstance(root, OSError):
        return OutboundError(f"{url} cannot be reached: {(root.strerror or type(root).__name__)}", "unreachable")
    # Not the text of the error: it may have what the server has sent.
    return OutboundError(f"{url} does not respond in HTTP: {type(root).__name__}", "invalid")
