"""A proxy between sidecar and broker that ends connections where a test says so; a thread of its own runs it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from enum import Enum
from typing import Self

from harness.cluster import SIDECAR_HOST


class Fault(Enum):
    """What happens to a connection at a request."""

    BEFORE = "the broker does not get it"
    AFTER = "the broker has it, and its response is lost"
    LATER = "it does not end: the broker gets the request, and those after it, once `go_on` is called"


class FaultProxy:
    """Forwards connections to one port of a broker. ``fault`` is asked for each request frame."""

    def __init__(self, port: int, broker_port: int) -> None:
        self._port, self._broker_port = port, broker_port
        self.fault: Callable[[bytes], Fault | None] = lambda frame: None
        self._listening = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._may_go_on = asyncio.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._listening.wait(10)
        return self

    def __exit__(self, *error: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)
        assert not self._thread.is_alive()

    def go_on(self) -> None:
        """The end of `Fault.LATER` for the requests that are held now."""
        self._loop.call_soon_threadsafe(self._release)

    def _release(self) -> None:
        self._may_go_on.set()
        self._may_go_on = asyncio.Event()

    async def wait(self) -> None:
        await self._may_go_on.wait()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:  # cancels what still forwards
            runner.run(self._serve())

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._forward, "127.0.0.1", self._port)
        with closing(server):
            self._listening.set()
            await self._stop.wait()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with closing(writer), suppress(OSError, asyncio.IncompleteReadError):
            connected = await asyncio.open_connection("127.0.0.1", self._broker_port, local_addr=(SIDECAR_HOST, 0))
            await _Conversation(self, reader, writer, *connected).run()


class _Conversation:
    def __init__(
        self,
        proxy: FaultProxy,
        from_client: asyncio.StreamReader,
        to_client: asyncio.StreamWriter,
        from_broker: asyncio.StreamReader,
        to_broker: asyncio.StreamWriter,
    ) -> None:
        self._proxy = proxy
        self._from_client, self._to_client = from_client, to_client
        self._from_broker, self._to_broker = from_broker, to_broker
        self._requests = self._responses = 0
        self._last: int | None = None  # the response that is lost

    async def run(self) -> None:
        with closing(self._to_broker):
            both = [asyncio.ensure_future(self._ask()), asyncio.ensure_future(self._answer())]
            try:
                await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for one in both:
                    one.cancel()
                await asyncio.gather(*both, return_exceptions=True)

    async def _ask(self) -> None:
        while True:
            frame = await _frame(self._from_client)
            fault = self._proxy.fault(frame)
            if fault is Fault.BEFORE:
                return
            if fault is Fault.LATER:
                await self._proxy.wait()
            self._requests += 1
            if fault is Fault.AFTER:
                self._last = self._requests
            self._to_broker.write(frame)
            await self._to_broker.drain()
            if fault is Fault.AFTER:
                await asyncio.Event().wait()

    async def _answer(self) -> None:
        while True:
            frame = await _frame(self._from_broker)
            self._responses += 1
            if self._responses == self._last:
                return
            self._to_client.write(frame)
            await self._to_client.drain()


async def _frame(reader: asyncio.StreamReader) -> bytes:
    length = await reader.readexactly(4)
    return length + await reader.readexactly(int.from_bytes(length, "big"))
