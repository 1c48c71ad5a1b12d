"""A small registry of ours with Confluent's API, honest or hostile: slow, wrong, huge, dripping, closing."""

from __future__ import annotations

import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from kafka_sidecar.schemas.registry import RegistrySettings

ORDER = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}'
GUID = "0b2d4f6e-1c3a-4e5b-8d7f-9a1b2c3d4e5f"
Handler = BaseHTTPRequestHandler


def respond(handler: Handler, status: int, body: object, **headers: str) -> None:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name, value)
    handler.send_header("Content-Length", str(len(data)))
    handler.end_headers()
    handler.wfile.write(data)


def failing(status: int, body: object = b"") -> Callable[[Handler], None]:
    return lambda handler: respond(handler, status, body)


def answering(body: object) -> Callable[[Handler], None]:
    return failing(200, body)


def silent(handler: Handler) -> None:
    time.sleep(5)


def dripping(handler: Handler) -> None:
    """A byte each tenth of a second: each read is quick, and the response never ends."""
    handler.send_response(200)
    handler.send_header("Content-Length", "100")
    handler.end_headers()
    for _ in range(100):
        handler.wfile.write(b" ")
        time.sleep(0.1)


def dripping_headers(handler: Handler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
    for _ in range(100):
        handler.wfile.write(b"X")
        time.sleep(0.1)


def closing(handler: Handler) -> None:
    handler.close_connection = True


def cut_off(handler: Handler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "100")
    handler.end_headers()
    handler.wfile.write(b'{"schema":')
    handler.close_connection = True


def huge(handler: Handler) -> None:
    """As chunks, without a length that could be looked at first."""
    handler.send_response(200)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    for _ in range(100):
        handler.wfile.write(b"10000\r\n" + b" " * 0x10000 + b"\r\n")


def redirecting(handler: Handler) -> None:
    respond(handler, 302, b"", Location="http://127.0.0.1:1/schemas/ids/1")


def no_http(handler: Handler) -> None:
    handler.wfile.write(b"SSH-2.0-a-secret\r\n\r\n")
    handler.close_connection = True


@dataclass
class FakeRegistry:
    """Subjects with their versions; a schema has the next id when it is registered."""

    url: str = ""
    delay_s: float = 0.0
    behaviour: Callable[[Handler], None] | None = None  # of all requests, in place of an answer
    authorization: str | None = None  # that requests must have
    compatible: bool = True
    knows_formats: bool = False  # whether Protobuf is answered as a descriptor
    requests: list[str] = field(default_factory=list)  # paths with their queries
    headers: list[dict[str, str]] = field(default_factory=list)
    bodies: list[Any] = field(default_factory=list)
    schemas: dict[int, dict[str, Any]] = field(default_factory=dict)  # by id
    subjects: dict[str, dict[int, int]] = field(default_factory=dict)  # version -> id
    guids: dict[str, int] = field(default_factory=dict)
    descriptors: dict[int, str] = field(default_factory=dict)
    answers: dict[str, tuple[int, Any]] = field(default_factory=dict)  # of other paths
    at_once: int = 0
    most_at_once: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)
    connections: list[socket.socket] = field(default_factory=list)

    def add(
        self, subject: str, text: str, language: str = "AVRO", references: tuple[tuple[str, str, int], ...] = ()
    ) -> int:
        """Its id."""
        schema: dict[str, Any] = {"schema": text}
        if language != "AVRO":
            schema["schemaType"] = language
        if references:
            schema["references"] = [{"name": name, "subject": of, "version": at} for name, of, at in references]
        number = len(self.schemas) + 1
        self.schemas[number] = schema
        versions = self.subjects.setdefault(subject, {})
        versions[len(versions) + 1] = number
        return number

    def settings(self, **more: Any) -> RegistrySettings:
        return RegistrySettings(**{"name": "main", "urls": (self.url,), "timeout_s": 3.0, **more})

    def close_connections(self) -> None:
        for one in self.connections:
            one.shutdown(socket.SHUT_RDWR)

    def count(self, part: str) -> int:
        return sum(part in path for path in self.requests)

    def serve(self, handler: Handler) -> None:
        length = int(handler.headers.get("Content-Length", 0))
        with self.lock:
            self.requests.append(handler.path)
            self.headers.append(dict(handler.headers.items()))
            if length:
                self.bodies.append(json.loads(handler.rfile.read(length)))
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            self._serve(handler)
        except (BrokenPipeError, ConnectionResetError):
            handler.close_connection = True
        finally:
            self.at_once -= 1

    def _serve(self, handler: Handler) -> None:
        time.sleep(self.delay_s)
        if self.behaviour is not None:
            self.behaviour(handler)
        elif self.authorization is not None and handler.headers.get("Authorization") != self.authorization:
            respond(handler, 401, {"error_code": 401, "message": "Unauthorized"})
        else:
            found = urlsplit(handler.path)
            status, body = self._answer([unquote(part) for part in found.path.split("/")[1:]], parse_qs(found.query))
            respond(handler, status, body)

    def _answer(self, parts: list[str], query: dict[str, list[str]]) -> tuple[int, Any]:
        if (known := self.answers.get("/" + "/".join(parts))) is not None:
            return known
        match parts:
            case ["schemas", "ids", number]:
                return self._schema(int(number), query)
            case ["schemas", "ids", number, "versions"]:
                return self._versions(int(number))
            case ["schemas", "guids", guid]:
                return self._schema(self.guids.get(guid, 0), query)
            case ["schemas", "guids", guid, "ids"]:
                return 200, [{"context": ".", "id": self.guids[guid]}] if guid in self.guids else []
            case ["subjects", subject, "versions", version]:
                return self._version(subject, version, query)
            case ["compatibility", "subjects", subject, "versions", "latest"]:
                if subject not in self.subjects:
                    return 404, {"error_code": 40401, "message": "Subject not found"}
                return 200, {"is_compatible": self.compatible}
        return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}

    def _schema(self, number: int, query: dict[str, list[str]]) -> tuple[int, Any]:
        if number not in self.schemas:
            return 404, {"error_code": 40403, "message": f"Schema {number} not found"}
        found = self.schemas[number]
        if query.get("format") == ["serialized"] and self.knows_formats:
            found = {**found, "schema": self.descriptors[number]}
        return 200, found

    def _versions(self, number: int) -> tuple[int, Any]:
        if number not in self.schemas:
            return 404, {"error_code": 40403, "message": "Schema not found"}
        found = [
            {"subject": subject, "version": version}
            for subject, versions in self.subjects.items()
            for version, one in versions.items()
            if one == number
        ]
        return 200, found

    def _version(self, subject: str, version: str, query: dict[str, list[str]]) -> tuple[int, Any]:
        versions = self.subjects.get(subject)
        if not versions:
            return 404, {"error_code": 40401, "message": "Subject not found"}
        number = max(versions) if version == "latest" else int(version)
        if number not in versions:
            return 404, {"error_code": 40402, "message": "Version not found"}
        _, schema = self._schema(versions[number], query)
        return 200, {"subject": subject, "version": number, "id": versions[number], **schema}


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 100

    def handle_error(self, request: Any, client_address: Any) -> None:
        """The client has gone, as it does with hostile servers."""


def serve(fake: FakeRegistry, port: int = 0, context: ssl.SSLContext | None = None) -> Server:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            if context is not None:
                self.request = context.wrap_socket(self.request, server_side=True, do_handshake_on_connect=False)
            super().setup()
            fake.connections.append(self.request)

        def handle(self) -> None:
            with self.request if context is not None else nullcontext():
                super().handle()

        def do_GET(self) -> None:
            fake.serve(self)

        def do_POST(self) -> None:
            fake.serve(self)

        def log_message(self, *args: object) -> None: ...

    server = Server(("127.0.0.1", port), Handler)
    fake.url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    return server


@contextmanager
def running() -> Iterator[FakeRegistry]:
    fake = FakeRegistry()
    server = serve(fake)
    try:
        yield fake
    finally:
        server.shutdown()
        server.server_close()
