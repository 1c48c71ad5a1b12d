"""A broker that stores nothing: it responds to ApiVersions, Metadata, Produce and Fetch as fast as possible."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

from rig import frames
from rig.connection import Connection, Loop
from rig.frames import Address


class StubBroker:
    """Node 1 of a cluster of one, at a port of its own.

    ``advertised`` is the address in Metadata: its own, or that of a relay that cannot rewrite it.
    """

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self._listener.setblocking(False)
        self._served: dict[Address, _Served] = {}
        self.address = Address(*self._listener.getsockname())
        self.advertised = self.address
        self.secure: Callable[[socket.socket], Any] = lambda sock: sock  # what is done with a new connection
        self.served = 0  # Produce and Fetch requests
        self.last_bytes = 0  # the size of the newest of these, length prefix included
        self.prepare(fetch_bytes=0)
        loop.watch(self._listener, self._accept)

    def close(self) -> None:
        for each in self._served.values():
            each.connection.close()
        self._loop.forget(self._listener)
        self._listener.close()

    def prepare(self, fetch_bytes: int, partitions: int = 1, fetch_records: bytes = b"") -> None:
        """Build the responses, Fetch with ``fetch_bytes`` of records or with these, and reset the count of requests."""
        self.responses = {frames.PRODUCE: frames.response(frames.produce_response(partitions))}
        if fetch_bytes or fetch_records:
            self.responses[frames.FETCH] = frames.response(frames.fetch_response(fetch_bytes, fetch_records))
        self.served = 0

    def control(self, api_key: int, version: int) -> bytes:
        """The body of a response to ApiVersions or Metadata."""
        match api_key, version:
            case frames.API_VERSIONS, _:
                return frames.api_versions_response(version)
            case frames.METADATA, 12:
                return frames.metadata_response(self.advertised)
        raise AssertionError(f"the stub broker was asked api key {api_key} version {version}, which it did not offer")

    def _accept(self, _events: int) -> None:
        sock, peer = self._listener.accept()
        address = Address(*peer)
        self._served[address] = _Served(self, self._loop, self.secure(sock), lambda: self._served.pop(address))


class _Served:
    """One connection to the stub."""

    def __init__(self, broker: StubBroker, loop: Loop, sock: socket.socket, on_end: Callable[[], object]) -> None:
        self._broker = broker
        self._due: int | None = None  # correlation id that the next Produce or Fetch must carry
        self.connection = Connection(loop, sock, frames.REQUEST_HEAD, self._answer, on_end)

    def _answer(self, heads: list[tuple[int, ...]]) -> None:
        _, api_key, _, first = heads[0]
        response = self._broker.responses.get(api_key)
        if response is None:
            self._answer_control(heads)
            return
        due = first if self._due is None else self._due
        for _, key, _, correlation in heads:
            if correlation != due or key != api_key:
                raise AssertionError(f"request {correlation} of api key {key} reached the broker where {due} was due")
            due += 1
        self._due = due
        self._broker.served += len(heads)
        self._broker.last_bytes = heads[-1][0] + 4
        self.connection.write(response.stamp(first, len(heads)))

    def _answer_control(self, heads: list[tuple[int, ...]]) -> None:
        (_, api_key, version, correlation), *others = heads
        self.connection.write([frames.response(self._broker.control(api_key, version)).one(correlation)])
        if others:
            self._answer(others)
