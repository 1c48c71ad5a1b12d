"""The sidecar's own Metadata requests: the brokers of the cluster, names and ids of topics.

With them a node's port works before any client has requested metadata, as after a restart. Brokers that require SASL
reject them; then the sidecar knows only what the responses to clients contain.
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

VERSION = 12  # of Metadata: supported by the oldest broker (3.9) and still by the newest
REQUEST_HEADER, RESPONSE_HEADER = 2, 1
OWN_CLIENT_ID = "kafka-sidecar"
MAX_RESPONSE_BYTES = 64 << 20
# Of one broker. ValueError and OverflowError: its host or port is invalid.
FAILURES = (OSError, EOFError, CodecError, ValueError, OverflowError)

Address = tuple[str, int]


class BootstrapServers:
    """The addresses of ``bootstrap_servers``: each call begins with the next one; those that failed come last."""

    def __init__(self, addresses: Iterable[Address]) -> None:
        self._addresses = list(addresses)
        self._failed: set[Address] = set()

    def next_order(self) -> list[Address]:
        order = sorted(self._addresses, key=lambda address: address in self._failed)
        self._addresses.append(self._addresses.pop(0))
        return order

    def record_attempt(self, address: Address, reachable: bool) -> None:
        if reachable:
            self._failed.discard(address)
        elif address in self._addresses:
            self._failed.add(address)


class MetadataClient:
    """Sends a request to one broker after another until one responds."""

    def __init__(
        self,
        candidates: Callable[[], list[Address]],
        record_attempt: Callable[[Address, bool], None],
        on_connected: Callable[[], None],
        source_address: str | None,
        timeout_s: float,
    ) -> None:
        self._candidates = candidates
        self._record_attempt = record_attempt  # called with an address and whether it responded
        self._on_connected = on_connected  # called after a broker has accepted a connection
        self._source = (source_address, 0) if source_address else None
        self._timeout_s = timeout_s  # for one broker

    async def brokers(self) -> list[tuple[int, str, int]]:
        """(node id, host, port) of the brokers of the cluster. Raises OSError, CodecError."""
        response = await self._request(MetadataRequest(topics=(), allow_auto_topic_creation=False))
        return [(broker.node_id, broker.host, broker.port) for broker in response.brokers]

    async def topic_names(self, topic_ids: Iterable[bytes]) -> dict[bytes, str]:
        """The names of those topics that exist; no id may be zero. Raises OSError, CodecError."""
        topics = tuple(MetadataRequestTopic(topic_id=topic_id, name=None) for topic_id in topic_ids)
        response = await self._request(MetadataRequest(topics=topics, allow_auto_topic_creation=False))
        return {topic.topic_id: topic.name for topic in response.topics if topic.name}

    async def topic_ids(self, names: Iterable[str]) -> dict[str, bytes]:
        """The ids of those topics that exist. Raises OSError, CodecError."""
        topics = tuple(MetadataRequestTopic(name=name) for name in names)
        response = await self._request(MetadataRequest(topics=topics, allow_auto_topic_creation=False))
        return {topic.name: topic.topic_id for topic in response.topics if topic.name and topic.topic_id != NO_ID}

    async def _request(self, request: MetadataRequest) -> MetadataResponse:
        failures: list[str] = []
        for host, port in self._candidates():
            try:
                async with asyncio.timeout(self._timeout_s):
                    response = await self._request_from(host, port, request)
                self._record_attempt((host, port), True)
                return response
            except TimeoutError:
                self._record_attempt((host, port), False)
                failures.append(f"{host}:{port} did not respond in {self._timeout_s:g} s")
            except FAILURES as error:
                failures.append(f"{host}:{port} {describe_failure(error)}")
        raise OSError("; ".join(failures) or "no broker is known")

    async def _request_from(self, host: str, port: int, request: MetadataRequest) -> MetadataResponse:
        header = RequestHeader(api_key=ApiKey.METADATA, api_version=VERSION, correlation_id=0, client_id=OWN_CLIENT_ID)
        body = encode(header, REQUEST_HEADER) + encode(request, VERSION)
        reader, writer = await asyncio.open_connection(host, port, local_addr=self._source)
        self._on_connected()
        try:
            writer.write(LENGTH.pack(len(body)) + body)
            (length,) = LENGTH.unpack(await reader.readexactly(LENGTH.size))
            if not 0 < length <= MAX_RESPONSE_BYTES:
                raise CodecError(f"sent a frame of {length} bytes")
            frame = await reader.readexactly(length)
        finally:
            writer.close()
        _, at = decode(ResponseHeader, frame, RESPONSE_HEADER)
        return decode(MetadataResponse, frame, VERSION, at)[0]


def describe_failure(error: Exception) -> str:
    """The text for a failed connection.

    >>> describe_failure(ConnectionRefusedError(111, "Connection refused"))
    'refused the connection'
    """
    match error:
        case ConnectionRefusedError():
            return "refused the connection"
        case EOFError():
            return "closed the connection without a response"
        case TimeoutError():
            return "timed out"
        case OSError():
            return error.strerror or str(error)
        case _:
            return str(error)
