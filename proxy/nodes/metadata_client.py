"""The sidecar's own questions to the cluster: which brokers there are, what a topic id stands for.

They make a node's port work before any client has asked for metadata, as after a restart. Where brokers demand SASL
these questions are refused, and the sidecar knows what it sees pass.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.headers import RequestHeader, ResponseHeader
from kafka_sidecar.codec.message import decode, encode
from kafka_sidecar.codec.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kafka_sidecar.codec.wire import LENGTH, NO_ID

VERSION = 12  # of Metadata: the oldest supported broker (3.9) speaks it, the newest still does
REQUEST_HEADER, RESPONSE_HEADER = 2, 1
OWN_CLIENT_ID = "kafka-sidecar"
MAX_ANSWER = 64 << 20
# Of one broker. ValueError and OverflowError: its host or port is none that could be.
FAILURES = (OSError, EOFError, CodecError, ValueError, OverflowError)

Address = tuple[str, int]


class Servers:
    """The addresses of ``bootstrap_servers``: each caller begins with the next one, and ends with those that failed."""

    def __init__(self, addresses: Iterable[Address]) -> None:
        self._addresses = list(addresses)
        self._failed: set[Address] = set()

    def in_turn(self) -> list[Address]:
        order = sorted(self._addresses, key=lambda address: address in self._failed)
        self._addresses.append(self._addresses.pop(0))
        return order

    def tried(self, address: Address, worked: bool) -> None:
        if worked:
            self._failed.discard(address)
        elif address in self._addresses:
            self._failed.add(address)


class MetadataClient:
    """Asks one broker after another until one answers."""

    def __init__(
        self,
        candidates: Callable[[], list[Address]],
        tried: Callable[[Address, bool], None],
        reached: Callable[[], None],
        source_address: str | None,
        time_limit: float,
    ) -> None:
        self._candidates = candidates
        self._tried = tried  # told whether an address has answered
        self._reached = reached  # told when a broker accepts a connection, whatever it answers
        self._source = (source_address, 0) if source_address else None
        self._time_limit = time_limit  # seconds for one broker

    async def brokers(self) -> list[tuple[int, str, int]]:
        """(node id, host, port) of the brokers that are there now. Raises OSError, CodecError."""
        response = await self._ask(MetadataRequest(topics=(), allow_auto_topic_creation=False))
        return [(broker.node_id, broker.host, broker.port) for broker in response.brokers]

    async def topic_names(self, topic_ids: Iterable[bytes]) -> dict[bytes, str]:
        """The names of those topics that there are; no id may be zero. Raises OSError, CodecError."""
        wanted = tuple(MetadataRequestTopic(topic_id=topic_id, name=None) for topic_id in topic_ids)
        response = await self._ask(MetadataRequest(topics=wanted, allow_auto_topic_creation=False))
        return {topic.topic_id: topic.name for topic in response.topics if topic.name}

    async def topic_ids(self, names: Iterable[str]) -> dict[str, bytes]:
        """The ids of those topics that there are. Raises OSError, CodecError."""
        wanted = tuple(MetadataRequestTopic(name=name) for name in names)
        response = await self._ask(MetadataRequest(topics=wanted, allow_auto_topic_creation=False))
        return {topic.name: topic.topic_id for topic in response.topics if topic.name and topic.topic_id != NO_ID}

    async def _ask(self, request: MetadataRequest) -> MetadataResponse:
        failures: list[str] = []
        for host, port in self._candidates():
            try:
                async with asyncio.timeout(self._time_limit):
                    response = await self._ask_one(host, port, request)
                self._tried((host, port), True)
                return response
            except TimeoutError:
                self._tried((host, port), False)
                failures.append(f"{host}:{port} did not answer in {self._time_limit:g} s")
            except FAILURES as error:
                failures.append(f"{host}:{port} {describe(error)}")
        raise OSError("; ".join(failures) or "no broker is known")

    async def _ask_one(self, host: str, port: int, request: MetadataRequest) -> MetadataResponse:
        header = RequestHeader(api_key=ApiKey.METADATA, api_version=VERSION, correlation_id=0, client_id=OWN_CLIENT_ID)
        body = encode(header, REQUEST_HEADER) + encode(request, VERSION)
        reader, writer = await asyncio.open_connection(host, port, local_addr=self._source)
        self._reached()
        try:
            writer.write(LENGTH.pack(len(body)) + body)
            (length,) = LENGTH.unpack(await reader.readexactly(LENGTH.size))
            if not 0 < length <= MAX_ANSWER:
                raise CodecError(f"answered with a frame of {length} bytes")
            frame = await reader.readexactly(length)
        finally:
            writer.close()
        _, at = decode(ResponseHeader, frame, RESPONSE_HEADER)
        return decode(MetadataResponse, frame, VERSION, at)[0]


def describe(error: Exception) -> str:
    """A sentence about a connection that failed.

    >>> describe(ConnectionRefusedError(111, "Connection refused"))
    'refused: Connection refused'
    """
    match error:
        case ConnectionRefusedError():
            return "refused: Connection refused"
        case EOFError():
            return "closed the connection without an answer"
        case TimeoutError():
            return "timed out"
        case OSError():
            return error.strerror or str(error)
        case _:
            return str(error)
