"""A TCP load balancer as in front of gateways: each port is forwarded to the same port of one that is ready."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, closing, suppress
from functools import partial
from typing import Self

CHUNK = 1 << 16
CHECK_EVERY_S = 0.1


class Balancer:
    """Forwards ``ports`` of ``host`` to the hosts that are ready, in turn; a thread of its own runs it."""

    def __init__(self, host: str, ports: Iterable[int], hosts: Sequence[str], is_ready: Callable[[str], bool]) -> None:
        self._host, self._ports, self._hosts, self._is_ready = host, list(ports), hosts, is_ready
        self._ready: set[str] = set(hosts)
        self._turns = itertools.cycle(hosts)
        self._listening = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._listening.wait(10)
        return self

    def __exit__(self, *error: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:  # cancels what still forwards
            runner.run(self._serve())

    async def _serve(self) -> None:
        with ExitStack() as servers:
            for port in self._ports:
                server = await asyncio.start_server(partial(self._forward, port), self._host, port)
                servers.callback(server.close)
            checking = asyncio.ensure_future(self._check())
            self._listening.set()
            await self._stop.wait()
            checking.cancel()

    async def _check(self) -> None:
        while True:
            for host in self._hosts:
                is_ready = await asyncio.to_thread(self._is_ready, host)
                (self._ready.add if is_ready else self._ready.discard)(host)
            await asyncio.sleep(CHECK_EVERY_S)

    async def _forward(self, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with closing(writer):
            for host in itertools.islice(self._turns, len(self._hosts)):
                if host not in self._ready:
                    continue
                with suppress(OSError):
                    from_host, to_host = await asyncio.open_connection(host, port)
                    with closing(to_host):
                        await asyncio.gather(_copy(reader, to_host), _copy(from_host, writer))
                    return


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError), closing(writer):
        while chunk := await reader.read(CHUNK):
            writer.write(chunk)
            await writer.drain()
