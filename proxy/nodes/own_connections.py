"""Recognises connections of the sidecar's own that come back to one of its listeners.

At the start by the addresses of ``bootstrap_servers``; while running, also through load balancers and whatever names
resolve to, by a token of this process in the ApiVersions request with which each of its own connections begins.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import secrets
import socket
from collections.abc import Collection, Iterable
from struct import Struct

from kafka_sidecar import __version__
from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.headers import RequestHeader
from kafka_sidecar.codec.message import encode
from kafka_sidecar.codec.messages.api_versions import ApiVersionsRequest
from kafka_sidecar.codec.wire import LENGTH

log = logging.getLogger(__name__)

OWN_CLIENT_ID = "kafka-sidecar"
VERSION, REQUEST_HEADER = 3, 2  # of ApiVersions: the first with the client's software (KIP-511)
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
        header = RequestHeader(
            api_key=ApiKey.API_VERSIONS, api_version=VERSION, correlation_id=number, client_id=OWN_CLIENT_ID
        )
        software = ApiVersionsRequest(
            client_software_name=OWN_CLIENT_ID, client_software_version=self._software_version
        )
        body = encode(header, REQUEST_HEADER) + encode(software, VERSION)
        return number, LENGTH.pack(len(body)) + body

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
