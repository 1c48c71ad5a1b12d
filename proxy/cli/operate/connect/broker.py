"""One connection to one broker, opened and logged in as the sidecar does it, for a few requests."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from kafka_sidecar.codec.apis import APIS, ApiKey
from kafka_sidecar.codec.envelope import decode_response, encode_request
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.message import Message
from kafka_sidecar.codec.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafka_sidecar.codec.messages.metadata import MetadataRequest, MetadataResponse
from kafka_sidecar.codec.wire import LENGTH
from kafka_sidecar.proxy.nodes.metadata_client import OWN_CLIENT_ID, Address, read_response
from kafka_sidecar.proxy.security.tls.broker_access import BrokerAccess

GREETING = 3  # of ApiVersions: the first with the client's software (KIP-511)
METADATA = 12  # the version that the sidecar itself uses
# Of one broker. ValueError and OverflowError: its host or port is invalid.
FAILURES = (OSError, EOFError, CodecError, ValueError, OverflowError)

M = TypeVar("M", bound=Message)


class NeedsLoginError(Exception):
    """The broker answers ApiVersions, and nothing else without a login."""


@dataclass(frozen=True, slots=True)
class Probe:
    """What a broker has said of itself and its cluster."""

    address: Address
    tls: str | None  # its version
    versions: dict[int, tuple[int, int]]
    features: dict[str, int]  # by name: the level that is in force in the cluster
    metadata: MetadataResponse | None = field(repr=False)  # None: it wants a login


class Channel:
    """Requests on one connection, one at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._number = 0

    @property
    def tls(self) -> str | None:
        opened: ssl.SSLObject | None = self._writer.get_extra_info("ssl_object")
        return opened.version() if opened is not None else None

    async def ask(self, request: Message, response: type[M], version: int) -> M:
        """Raises what `FAILURES` has."""
        self._number += 1
        frame = encode_request(request, version, self._number, OWN_CLIENT_ID)
        return decode_response(response, await self._exchange(frame), version).message

    async def greet(self) -> ApiVersionsResponse:
        """What the broker supports. Raises as `ask`."""
        software = ApiVersionsRequest(client_software_name=OWN_CLIENT_ID, client_software_version=_VERSION)
        return await self.ask(software, ApiVersionsResponse, GREETING)

    async def _exchange(self, frame: bytes) -> bytes:
        self._writer.write(frame)
        body = await read_response(self._reader)
        return LENGTH.pack(len(body)) + body


_VERSION = "validate"


@asynccontextmanager
async def connected(access: BrokerAccess, address: Address) -> AsyncIterator[Channel]:
    """Raises what `FAILURES` has, and LoginError."""
    reader, writer = await access.open(*address)
    try:
        yield Channel(reader, writer)
    finally:
        writer.close()


async def probe(access: BrokerAccess, address: Address) -> Probe:
    """Greet a broker and ask for the brokers of its cluster. Raises what `FAILURES` has, and LoginError."""
    async with connected(access, address) as channel:
        offered = await channel.greet()
        versions = {one.api_key: (one.min_version, one.max_version) for one in offered.api_keys}
        features = {one.name: one.max_version_level for one in offered.finalized_features}
        metadata = None
        if supports(versions, ApiKey.METADATA, METADATA):
            try:
                everyone = MetadataRequest(topics=(), allow_auto_topic_creation=False)
                metadata = await channel.ask(everyone, MetadataResponse, METADATA)
            except (EOFError, ConnectionResetError):
                if access.logins is not None:
                    raise
        return Probe(address, channel.tls, versions, features, metadata)


def supports(versions: dict[int, tuple[int, int]], key: ApiKey, version: int) -> bool:
    low, high = versions.get(key, (0, -1))
    return low <= version <= high


def common(versions: dict[int, tuple[int, int]], key: ApiKey) -> str:
    """The versions of an API that sidecar and broker both have.

    >>> common({0: (0, 99)}, ApiKey.PRODUCE).startswith("Produce ")
    True
    """
    api, (low, high) = APIS[key], versions.get(key, (0, -1))
    low, high = max(low, api.min_version), min(high, api.max_version)
    return f"{api.name} {low} to {high}" if low <= high else f"{api.name} none"
