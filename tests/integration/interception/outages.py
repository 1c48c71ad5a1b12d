"""What happens to traffic on its way: a relay whose connections can be cut, and outages after so much progress."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from integration.scenarios.target import LIMIT_S, eventually

RESET = struct.pack("ii", 1, 0)  # SO_LINGER of no time: what is on its way is lost, the peer gets a reset


class Relay:
    """Stands before a port of 127.0.0.1, at a free port or at ``own``; connects from the host ``source`` if given."""

    def __init__(self, port: int, own: int = 0, source: str = "") -> None:
        self._target, self._source = port, source
        self._server = socket.create_server(("127.0.0.1", own))
        self.port: int = self._server.getsockname()[1]
        self._open: list[socket.socket] = []
        self._lock = threading.Lock()
        self.cuts = 0
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def cut(self) -> None:
        """End all connections at once."""
        with self._lock:
            ended, self._open = self._open, []
        self.cuts += len(ended)
        for one in ended:
            with contextlib.suppress(OSError):
                one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                one.shutdown(socket.SHUT_RDWR)
        for one in ended:
            one.close()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)  # a close alone does not end an accept that waits
        self._accepting.join()
        self._server.close()
        self.cut()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                client, _ = self._server.accept()
                try:
                    broker = socket.create_connection(
                        ("127.0.0.1", self._target), source_address=(self._source, 0) if self._source else None
                    )
                except OSError:
                    client.close()
                    continue
                with self._lock:
                    self._open += [client, broker]
                for pair in ((client, broker), (broker, client)):
                    threading.Thread(target=self._pump, args=pair, daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                sink.sendall(data)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)


@contextmanager
def outages(progress: Callable[[], int], at: Sequence[int], outage: Callable[[], None]) -> Iterator[None]:
    """While the block runs, ``outage`` happens as soon as there is so much progress, each time."""
    failures: list[BaseException] = []

    def run() -> None:
        try:
            for mark in at:
                eventually(progress, lambda found: found >= mark, f"progress to {mark}", 2 * LIMIT_S)  # noqa: B023
                outage()
        except BaseException as error:  # noqa: BLE001 - it is raised where it is noticed
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        thread.join()
    assert not failures, failures
