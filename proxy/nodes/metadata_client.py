"""The sidecar's own requests to brokers: ApiVersions and Metadata, for the brokers of the cluster and its topics.

With them a node's port works before any client has requested metadata, as after a restart. Brokers that require SASL
reject Metadata; then the sidecar knows only what the responses to clients contain.

Each connection begins with ApiVersions, to which every broker responds, also before authentication. A token of this
process in it says where such a connection has come back to one of the sidecar's own listeners, also through load
balancers and whatever names resolve to; at the start the addresses of ``bootstrap_servers`` say it.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import secrets
import socket
from collections.abc import Callable, Collection, Iterable
from struct import Struct

from kafka_sidecar import __version__
from kafka_sidecar.codec.apis import ApiKey, ErrorCode
from kafka_sidecar.codec.envelope import encode_request
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.headers import ResponseHeader
from kafka_sidecar.codec.message import decode
from kafka_sidecar.codec.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafka_sidecar.codec.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kafka_sidecar.codec.wire import LENGTH, NO_ID
from kafka_sidecar.proxy.relay.introduction import diagnose
from kafka_sidecar.proxy.security.tls.broker_access import OWN_CLIENT_ID, BrokerAccess
from kafka_sidecar.proxy.telemetry.tls_failures import describe_failure

log = logging.getLogger(__name__)

GREETING = 3  # version of ApiVersions: the first with the client's software (KIP-511)
CORRELATION_ID = Struct(">i")
CORRELATION_ID_AT = 8
RESOLVE_S = 2.0
REMEDY = "correct bootstrap_servers: they must lead to brokers, not to this sidecar"

Address = tuple[str, int]


class OwnConnections:
    """The token of this process, and the addresses that have led back to it."""

    def __init__(self) -> None:
        self._software_version = f"{__version__}-{secrets.token_hex(8)}"
        self._token = self._software_version.encode()
        self._numbers = itertools.count(1)
        self._returned: set[int] = set()  # connections that have come back
        self.addresses: set[Address] = set()  # that lead to this sidecar

    def greeting(self) -> tuple[int, bytes]:
        """The number of a new connection, and the ApiVersions request to begin it with."""
        number = next(self._numbers)
        software = ApiVersionsRequest(
            client_software_name=OWN_CLIENT_ID, client_software_version=self._software_version
        )
        return number, encode_request(software, GREETING, number, OWN_CLIENT_ID)

    def recognise(self, chunk: bytes) -> bool:
        """Whether the first bytes that a client sends are a greeting of this process."""
        if self._token not in chunk:
            return False
        self._returned.add(CORRELATION_ID.unpack_from(chunk, CORRELATION_ID_AT)[0])
        return True

    def came_back(self, number: int, address: Address) -> bool:
        """Whether the connection with this number, made to ``address``, has come back; the address is remembered."""
        if number not in self._returned:
            return False
        self._returned.discard(number)
        if address not in self.addresses:
            self.addresses.add(address)
            log.error("sidecar connects to itself", extra={"address": "{}:{}".format(*address), "detail": REMEDY})
        return True


async def listener_among(servers: Iterable[Address], bind_host: str, ports: Collection[int]) -> Address | None:
    """The first of these servers that resolves to one of the sidecar's own listeners; names may be unknown as yet."""
    bound = await _resolve(bind_host)
    for host, port in servers:
        if port in ports and any(ip in bound or (_is_wildcard(bound) and _is_local(ip)) for ip in await _resolve(host)):
            return host, port
    return None


async def _resolve(host: str) -> set[str]:
    try:
        async with asyncio.timeout(RESOLVE_S):
            found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return set()
    return {str(address[0]) for *_, address in found}


def _is_wildcard(bound: set[str]) -> bool:
    return bool(bound & {"0.0.0.0", "::"})


def _is_local(ip: str) -> bool:
    """Whether it is an address of this host: only those can be bound."""
    try:
        with socket.socket(socket.AF_INET6 if ":" in ip else socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.bind((ip, 0))
    except OSError:
        return False
    return True


METADATA = 12  # its version: supported by the oldest broker (3.9) and still by the newest
RESPONSE_HEADER = 1
USE_NEWER = "use brokers of Kafka 3.9 or newer"
TOO_NEW = int(ErrorCode.UNSUPPORTED_VERSION).to_bytes(2, "big")
_ERROR = slice(4, 6)  # of a response to ApiVersions, after the correlation id
MAX_RESPONSE_BYTES = 64 << 20
# Of one broker. ValueError and OverflowError: its host or port is invalid.
FAILURES = (OSError, EOFError, CodecError, ValueError, OverflowError)


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
        record_attempt: Callable[[Address, Exception | None], None],
        on_reached: Callable[[], None],
        own: OwnConnections,
        access: BrokerAccess,
        timeout_s: float,
    ) -> None:
        self._candidates = candidates
        self._record_attempt = record_attempt  # called with an address and why it did not respond
        self._on_reached = on_reached  # called after a broker has responded
        self._own = own
        self._access = access
        self._timeout_s = timeout_s  # for one request to one broker
        self._kept: _Channel | None = None
        self.offered: ApiVersionsResponse | None = None  # by the broker that responded last
        self._turn = asyncio.Lock()  # of requests on the kept connection

    async def brokers(self) -> list[tuple[int, str, int]]:
        """(node id, host, port) of the brokers of the cluster. Raises OSError, CodecError."""
        channel, response = await self._first_response(MetadataRequest(topics=(), allow_auto_topic_creation=False))
        channel.close()
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

    async def probe(self, address: Address) -> None:
        """See whether a broker responds at the address, or this sidecar. Raises what `FAILURES` has."""
        async with asyncio.timeout(self._timeout_s):
            (await self._open(address)).close()

    def close(self) -> None:
        """Close the connection that is kept."""
        if self._kept is not None:
            self._kept.close()
            self._kept = None

    async def _request(self, request: MetadataRequest) -> MetadataResponse:
        """On the kept connection; brokers close it when it has been idle, then on a new one."""
        async with self._turn:
            if self._kept is not None:
                try:
                    async with asyncio.timeout(self._timeout_s):
                        return await self._kept.metadata(request)
                except BaseException as error:
                    self.close()  # a response that comes later would be taken for the next one's
                    if not isinstance(error, FAILURES):
                        raise
            self._kept, response = await self._first_response(request)
            return response

    async def _first_response(self, request: MetadataRequest) -> tuple[_Channel, MetadataResponse]:
        failures: list[str] = []
        for address in self._candidates():
            channel = None
            host, port = address
            try:
                async with asyncio.timeout(self._timeout_s):
                    channel = await self._open(address)
                    _refuse_too_old(self.offered)
                    response = await channel.metadata(request)
                self._record_attempt(address, None)
                return channel, response
            except BaseException as error:
                if channel is not None:
                    channel.close()
                if not isinstance(error, FAILURES):
                    raise
                self._record_attempt(address, error)
                if isinstance(error, TimeoutError):
                    failures.append(f"{host}:{port} did not respond in {self._timeout_s:g} s")
                else:
                    failures.append(f"{host}:{port} {describe_failure(error)}")
        raise OSError("; ".join(failures) or "no broker is known")

    async def _open(self, address: Address) -> _Channel:
        """A connection whose ApiVersions request a broker has responded to."""
        reader, writer = await self._access.open(*address)
        channel = _Channel(reader, writer)
        number, greeting = self._own.greeting()
        try:
            self.offered = await channel.greet(greeting)
        except BaseException as error:
            channel.close()
            if self._own.came_back(number, address):
                raise OSError("is this sidecar itself") from error
            raise
        self._own.addresses.discard(address)
        self._on_reached()
        return channel


def _refuse_too_old(offered: ApiVersionsResponse | None) -> None:
    """Such a broker would close the connection silently. Raises CodecError."""
    for one in () if offered is None else offered.api_keys:
        if one.api_key == ApiKey.METADATA and one.max_version < METADATA:
            have = f"{one.min_version} to {one.max_version}"
            raise CodecError(f"has Metadata {have}, {METADATA} is needed: {USE_NEWER}")


async def read_response(reader: asyncio.StreamReader) -> bytes:
    """The next response of a broker, without its length. Raises CodecError where that is none, or too much."""
    start = await reader.readexactly(LENGTH.size)
    if (sentence := diagnose(start)) is not None:
        raise CodecError(sentence)
    (length,) = LENGTH.unpack(start)
    if not 0 < length <= MAX_RESPONSE_BYTES:
        raise CodecError(f"sent a frame of {length} bytes")
    return await reader.readexactly(length)


class _Channel:
    """One connection to one broker, for one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def metadata(self, request: MetadataRequest) -> MetadataResponse:
        frame = await self.request(encode_request(request, METADATA, 0, OWN_CLIENT_ID))
        _, at = decode(ResponseHeader, frame, RESPONSE_HEADER)
        return decode(MetadataResponse, frame, METADATA, at)[0]

    async def greet(self, greeting: bytes) -> ApiVersionsResponse | None:
        """The versions that the broker responds with; None: it responds with an error."""
        frame, version = await self.request(greeting), GREETING
        if frame[_ERROR] == TOO_NEW:  # from a broker before Kafka 2.4, in version 0 (KIP-511)
            frame, version = await self.request(encode_request(ApiVersionsRequest(), 0, 0, OWN_CLIENT_ID)), 0
        response, _ = decode(ApiVersionsResponse, frame, version, LENGTH.size)
        return response if response.error_code == ErrorCode.NONE else None

    async def request(self, frame: bytes) -> bytes:
        """The response to a request, without its length."""
        self._writer.write(frame)
        return await read_response(self._reader)

    def close(self) -> None:
        self._writer.close()
