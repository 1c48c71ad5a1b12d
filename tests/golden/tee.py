"""A tee before each broker: it passes frames on and remembers them, connection by connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from struct import pack

CLIENT, BROKER = "C", "B"  # who has sent a frame


@dataclass(slots=True)
class Conversation:
    """One connection."""

    frames: list[tuple[str, bytes]] = field(default_factory=list)  # as they came, in the order of their coming

    def said_by(self, who: str) -> list[bytes]:
        return [frame for speaker, frame in self.frames if speaker == who]


def addresses(servers: str) -> list[tuple[str, int]]:
    """Host and port of each of the bootstrap.servers."""
    return [(host, int(port)) for host, _, port in (address.rpartition(":") for address in servers.split(","))]


class Tee:
    """What is passed on has the brokers' ports replaced by the tee's, in place, so that clients stay with it."""

    def __init__(self, brokers: Iterable[tuple[str, int]]) -> None:
        self.conversations: list[Conversation] = []
        self.ports: dict[int, int] = {}  # of a broker -> of the tee
        self._brokers = list(brokers)
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Tee:
        for host, port in self._brokers:
            server = await asyncio.start_server(self._accept(host, port), "127.0.0.1", 0)
            self.ports[port] = server.sockets[0].getsockname()[1]
            self._servers.append(server)
        return self

    async def __aexit__(self, *_: object) -> None:
        for server in self._servers:
            server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.sleep(0)  # an aborted transport closes its socket in the next turn

    @property
    def addresses(self) -> str:
        """Where clients connect, as bootstrap.servers."""
        return ",".join(f"127.0.0.1:{port}" for port in self.ports.values())

    def passed_on(self, frame: bytes) -> bytes:
        """What clients get in place of a broker's frame."""
        for port, own in self.ports.items():
            frame = frame.replace(pack(">i", port), pack(">i", own))
        return frame

    def _accept(self, host: str, port: int) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], None]:
        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.get_running_loop().create_task(self._serve(host, port, reader, writer))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        return accept

    async def _serve(self, host: str, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        conversation = Conversation()
        self.conversations.append(conversation)
        writers = [writer]
        try:
            from_broker, to_broker = await asyncio.open_connection(host, port)
            writers.append(to_broker)
            pumps = [
                asyncio.ensure_future(self._pump(CLIENT, reader, to_broker, conversation)),
                asyncio.ensure_future(self._pump(BROKER, from_broker, writer, conversation)),
            ]
            try:
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for pump in pumps:
                    pump.cancel()
                await asyncio.gather(*pumps, return_exceptions=True)
        except OSError:
            pass  # no broker: the client sees its connection closed
        finally:
            for each in writers:
                each.transport.abort()

    async def _pump(
        self, who: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, conversation: Conversation
    ) -> None:
        try:
            while True:
                length = await reader.readexactly(4)
                frame = length + await reader.readexactly(int.from_bytes(length, "big"))
                conversation.frames.append((who, frame))
                writer.write(frame if who == CLIENT else self.passed_on(frame))
        except (EOFError, OSError):
            return
