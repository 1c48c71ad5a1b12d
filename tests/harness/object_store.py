"""A real S3 store, SeaweedFS, built from its Go module; and what may go wrong on the way to it.

It needs Go. The version, with all that it imports, is that of `tests/object_store/go.mod`.
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from enum import Enum
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

from obstore.store import S3Store

from harness.ports import free_ports
from harness.processes import Program

ROOT = Path(__file__).parents[2]
SOURCES, PROGRAM = ROOT / "tests" / "object_store", ROOT / ".cache" / "tools" / "bin" / "weed"
BUILD_LIMIT_S = 1200  # four minutes alone on two cores
READY_LIMIT_S = 60
KEY_ID, SECRET, BUCKET, REGION = "sidecar", "not-a-secret", "large", "us-east-1"
NEEDS_GO = "the object store is built with Go, which is not installed"


def has_go() -> bool:
    return shutil.which("go") is not None


@cache
def program() -> Path:
    """SeaweedFS; Go builds nothing that it has built before."""
    PROGRAM.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        ["go", "build", "-buildvcs=false", "-o", PROGRAM, "github.com/seaweedfs/seaweedfs/weed"],
        cwd=SOURCES, env={**os.environ, "CGO_ENABLED": "0"}, check=True, timeout=BUILD_LIMIT_S,
    )  # fmt: skip
    return PROGRAM


def options(port: int, secret: str = SECRET) -> dict[str, str]:
    """As in `large_messages.object_store_options`."""
    return {
        "endpoint": f"http://127.0.0.1:{port}", "access_key_id": KEY_ID, "secret_access_key": secret, "region": REGION,
    }  # fmt: skip


class ObjectStoreServer:
    """An S3 store with one bucket and one user."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        users = folder / "users.json"
        credentials = [{"accessKey": KEY_ID, "secretKey": SECRET}]
        actions = ["Admin", "Read", "List", "Tagging", "Write"]
        users.write_text(
            json.dumps({"identities": [{"name": "sidecar", "credentials": credentials, "actions": actions}]})
        )
        self.port, master, volume, filer, *grpc = free_ports(8)
        ports = dict(
            zip(
                ("master.port", "volume.port", "filer.port", "s3.port", "master.port.grpc", "volume.port.grpc",
                 "filer.port.grpc", "s3.port.grpc"),
                (master, volume, filer, self.port, *grpc), strict=True,
            )
        )  # fmt: skip
        self.program = Program(
            [
                program(), "server", "-s3", f"-s3.config={users}", f"-dir={folder}", "-ip=127.0.0.1",
                "-ip.bind=127.0.0.1", "-volume.max=20", "-master.volumeSizeLimitMB=128",
                *(f"-{name}={port}" for name, port in ports.items()),
            ],
            folder / "store.log",
        )  # fmt: skip
        self.program.wait_for(self._has_bucket, "ready", READY_LIMIT_S)

    def stop(self) -> None:
        self.program.stop()

    def objects(self, prefix: str = "") -> dict[str, int]:
        """Sizes by key."""
        return {one["path"]: one["size"] for page in self._store().list(prefix) for one in page}

    def put(self, key: str, value: bytes) -> None:
        self._store().put(key, value)

    def delete(self, key: str) -> None:
        self._store().delete(key)

    def _store(self) -> Any:
        return S3Store(BUCKET, config=cast(Any, options(self.port)), client_options={"allow_http": True})

    def _has_bucket(self) -> bool:
        """Whether the bucket is there; it is created with the first object."""
        try:
            self.put("ready", b"")
            self.delete("ready")
        except Exception:  # noqa: BLE001 - of a server that starts
            time.sleep(0.3)
            return False
        return True


class Trouble(Enum):
    """What becomes of requests to the store."""

    NONE = "they are answered"
    FAILS = "503 SlowDown"
    SLOW = "answered after two seconds"
    HANGS = "never answered"


SLOW_S = 2.0


class StoreFront:
    """Forwards requests to the store's port, or does what `trouble` says."""

    def __init__(self, store_port: int) -> None:
        self.store_port = store_port
        self.trouble = Trouble.NONE
        self.requests: list[tuple[str, str]] = []  # method and path
        self._released = threading.Event()
        handler = type("Handler", (_Handler,), {"front": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self.port: int = self._server.server_address[1]

    def wait(self) -> None:
        """Until requests that hang are released."""
        self._released.wait(60)

    def release(self) -> None:
        """Ends the requests that hang."""
        self._released.set()
        self._released = threading.Event()

    def run(self) -> None:
        self._server.serve_forever(poll_interval=0.05)

    def stop(self) -> None:
        self.release()
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    front: StoreFront

    def __getattr__(self, name: str) -> Any:
        if name.startswith("do_"):
            return self._respond
        raise AttributeError(name)

    def _respond(self) -> None:
        front, body = self.front, self.rfile.read(int(self.headers.get("Content-Length") or 0))
        front.requests.append((self.command, self.path))
        if front.trouble is Trouble.HANGS:
            front.wait()
            self.close_connection = True
            return
        if front.trouble is Trouble.SLOW:
            time.sleep(SLOW_S)
        if front.trouble is Trouble.FAILS:
            self._send(503, [], b"<Error><Code>SlowDown</Code></Error>")
            return
        with closing(http.client.HTTPConnection("127.0.0.1", front.store_port, timeout=60)) as connection:
            connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():  # the host's name as it was signed
                connection.putheader(name, value)
            connection.endheaders(body or None)
            response = connection.getresponse()
            self._send(response.status, response.getheaders(), response.read())

    def _send(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        self.send_response_only(status)
        passed = [one for one in headers if one[0].lower() not in {"transfer-encoding", "connection"}]
        if all(name.lower() != "content-length" for name, _ in passed):
            passed.append(("Content-Length", str(len(body))))
        for name, value in passed:
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


@contextmanager
def object_store(folder: Path) -> Iterator[ObjectStoreServer]:
    server = ObjectStoreServer(folder)
    try:
        yield server
    finally:
        server.stop()


@contextmanager
def store_front(store_port: int) -> Iterator[StoreFront]:
    front = StoreFront(store_port)
    thread = threading.Thread(target=front.run, daemon=True)
    thread.start()
    try:
        yield front
    finally:
        front.stop()
        thread.join(10)
