"""A scripted broker: one function per API, which can delay, stall, refuse or close midway.

broker = FakeBroker(1)
await broker.start()
broker.answers[ApiKey.FETCH] = after(0.1, fixed(frame))
broker.answers[ApiKey.METADATA] = hang_up(partly=b"\\0\\0")
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from struct import unpack_from

from kafka_sidecar.codec.apis import APIS, ApiKey
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.proxy.relay.acks import acks_at
from support import oracle

UNSUPPORTED_VERSION = 35


@dataclass(frozen=True, slots=True)
class Request:
    """What a client has sent; ``frame`` is all of it, length included."""

    key: int
    version: int
    correlation_id: int
    frame: bytes


class HangUpError(Exception):
    """The broker sends ``partly`` and closes the connection."""

    def __init__(self, partly: bytes = b"") -> None:
        super().__init__("the broker hangs up")
        self.partly = partly


Answer = Callable[["FakeBroker", Request], Awaitable[bytes | None]]


async def api_versions(broker: FakeBroker, request: Request) -> bytes:
    offered = [{"api_key": key, "max_version": api.max_version} for key, api in APIS.items() if api.max_version >= 0]
    version, error = (request.version, 0) if request.version <= 4 else (0, UNSUPPORTED_VERSION)
    return oracle.response_frame(
        oracle.response(request.key, version, error_code=error, api_keys=offered), request.correlation_id
    )


async def metadata(broker: FakeBroker, request: Request) -> bytes:
    brokers = [{"node_id": other.node_id, "host": other.host, "port": other.port} for other in broker.cluster]
    return oracle.response_frame(
        oracle.response(request.key, request.version, brokers=brokers, controller_id=broker.node_id),
        request.correlation_id,
    )


async def produce(broker: FakeBroker, request: Request) -> bytes | None:
    try:
        here = acks_at(request.version, request.frame, 0, len(request.frame))
        assert here is not None
        if request.frame[here : here + 2] == b"\0\0":
            return None
    except CodecError:
        raise HangUpError from None
    return oracle.response_frame(oracle.response(request.key, request.version), request.correlation_id)


async def named(broker: FakeBroker, request: Request) -> bytes:
    """What every other API gets: a body that says which broker this is."""
    return oracle.framed(request.correlation_id.to_bytes(4, "big", signed=True) + b"node %d" % broker.node_id)


def fixed(frame: bytes) -> Answer:
    """The same response to every request, with the right correlation id."""

    async def answer(broker: FakeBroker, request: Request) -> bytes:
        return frame[:4] + request.correlation_id.to_bytes(4, "big", signed=True) + frame[8:]

    return answer


def after(seconds: float, then: Answer) -> Answer:
    async def answer(broker: FakeBroker, request: Request) -> bytes | None:
        await asyncio.sleep(seconds)
        return await then(broker, request)

    return answer


async def stall(broker: FakeBroker, request: Request) -> None:
    """Never answer: not this request, and nothing after it."""
    await asyncio.Event().wait()


def hang_up(partly: bytes = b"") -> Answer:
    async def answer(broker: FakeBroker, request: Request) -> None:
        raise HangUpError(partly)

    return answer


ANSWERS: dict[int, Answer] = {ApiKey.API_VERSIONS: api_versions, ApiKey.METADATA: metadata, ApiKey.PRODUCE: produce}


class FakeBroker:
    """One listener. Requests of one connection are answered one after another, as a broker does."""

    def __init__(self, node_id: int = 1, tls: ssl.SSLContext | None = None) -> None:
        self.node_id = node_id
        self._tls = tls
        self.host, self.port = "127.0.0.1", 0
        self.cluster: list[FakeBroker] = [self]
        self.answers = dict(ANSWERS)
        self.requests: list[Request] = []
        self.connected = 0  # how many connections there have been
        self.clients: list[str] = []  # the addresses that they came from
        self.reading = asyncio.Event()  # cleared: what clients send is not read
        self.reading.set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._serving: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def open(self) -> int:
        """How many connections there are now."""
        return len(self._writers)

    async def start(self) -> FakeBroker:
        """Listen; after a stop at the same port again."""
        self._server = await asyncio.start_server(self._accept, self.host, self.port, backlog=1024, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def stop(self) -> None:
        """Close everything, as a broker's end does."""
        if self._server is not None:
            self._server.close()
        self.drop()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    def drop(self) -> None:
        """Break all connections."""
        for writer in self._writers:
            writer.transport.abort()

    async def __aenter__(self) -> FakeBroker:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connected += 1
        self.clients.append(writer.get_extra_info("peername")[0])
        self._writers.add(writer)
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                await self.reading.wait()
                length = await reader.readexactly(4)
                frame = length + await reader.readexactly(int.from_bytes(length, "big"))
                key, version, correlation_id = unpack_from(">hhi", frame, 4)
                request = Request(key, version, correlation_id, frame)
                self.requests.append(request)
                response = await self.answers.get(request.key, named)(self, request)
                if response is not None:
                    writer.write(response)
                    await writer.drain()
        except HangUpError as error:
            writer.write(error.partly)
        except (OSError, EOFError):
            pass
        finally:
            self._writers.discard(writer)
            writer.close()
