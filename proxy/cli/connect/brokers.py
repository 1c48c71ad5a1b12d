"""One connection to one broker, opened and logged in as the sidecar does it, for a few requests."""

from __future__ import annotations

import asyncio
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TypeVar

from kafka_sidecar.codec.apis import APIS, ApiKey
from kafka_sidecar.codec.envelope import decode_response, encode_request
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.message import Message
from kafka_sidecar.codec.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafka_sidecar.codec.messages.metadata import MetadataRequest, MetadataResponse
from kafka_sidecar.codec.wire import LENGTH
from kafka_sidecar.proxy.cli.connect.report import Check, failed, ok, warning
from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.config.types import host_port
from kafka_sidecar.proxy.nodes.metadata_client import TOO_NEW, USE_NEWER, Address, listener_among, read_response
from kafka_sidecar.proxy.security.sasl.broker_logins import BrokerLogins, Password
from kafka_sidecar.proxy.security.sasl.conversation import LoginError
from kafka_sidecar.proxy.security.tls.broker_access import OWN_CLIENT_ID, BrokerAccess, HandshakeError, cause_of
from kafka_sidecar.proxy.telemetry.readable import counted
from kafka_sidecar.proxy.telemetry.tls_failures import describe_failure

GREETING = 3  # of ApiVersions: the first with the client's software (KIP-511)
METADATA = 12  # the version that the sidecar itself uses
# Of one broker. ValueError and OverflowError: its host or port is invalid.
FAILURES = (OSError, EOFError, CodecError, ValueError, OverflowError)

M = TypeVar("M", bound=Message)
AT_A_TIME = 10
MAX_BROKERS = 200  # that are connected to; a cluster may have more
REMEDIES = {
    "broker_unreachable": "is it up, is the port right, is there a network policy between?",
    "connect_timeout": "is there a firewall or a network policy between, or is the broker overloaded?",
    "authentication_failed": "",  # that of the login follows
}


@dataclass(frozen=True, slots=True)
class Probe:
    """What a broker has said of itself and its cluster."""

    address: Address
    tls: str | None  # its version
    versions: dict[int, tuple[int, int]]
    features: dict[str, int]  # by name: the level that is in force in the cluster
    metadata: MetadataResponse | None = field(repr=False)  # None: it wants a login, or is too old

    @property
    def is_too_old(self) -> bool:
        return not supports(self.versions, ApiKey.METADATA, METADATA)


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
        return decode_response(response, await self._exchange(request, version), version).message

    async def greet(self) -> ApiVersionsResponse:
        """What the broker supports. Raises as `ask`."""
        software = ApiVersionsRequest(client_software_name=OWN_CLIENT_ID, client_software_version=_VERSION)
        frame = await self._exchange(software, GREETING)
        if frame[_ERROR] == TOO_NEW:  # old brokers and mocks; the response is one of version 0 (KIP-511)
            return await self.ask(ApiVersionsRequest(), ApiVersionsResponse, 0)
        return decode_response(ApiVersionsResponse, frame, GREETING).message

    async def _exchange(self, request: Message, version: int) -> bytes:
        self._number += 1
        self._writer.write(encode_request(request, version, self._number, OWN_CLIENT_ID))
        body = await read_response(self._reader)
        return LENGTH.pack(len(body)) + body


_VERSION = "validate"
_ERROR = slice(8, 10)  # after length and correlation id


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


@dataclass(frozen=True, slots=True)
class Found:
    """What was tried, and a broker that answers."""

    checks: list[Check]
    probe: Probe | None
    access: BrokerAccess


async def check_brokers(config: Config, access: BrokerAccess) -> Found:
    """Bootstrap servers first, then the others of their cluster."""
    servers = list(dict.fromkeys(map(host_port, config.bootstrap_servers)))
    own = await listener_among(servers, host_port(config.listen)[0], config.own_ports)
    if own is not None:
        detail = config.is_itself("{}:{}".format(*own))
        return Found([failed("bootstrap", "{}:{}".format(*own), detail)], None, access)
    limit_s = config.connections.connect_timeout
    answers = await _probe_all(access, servers[:MAX_BROKERS], limit_s)
    checks = [_check("bootstrap", address, answer, access, limit_s) for address, answer in answers.items()]
    probes = [one for one in answers.values() if isinstance(one, Probe)]
    if not probes:
        return Found(checks, None, access)
    checks += _check_cluster(config, probes)
    metadata = [one.metadata for one in probes if one.metadata is not None]
    nodes = {(one.host, one.port): one.node_id for found in metadata for one in found.brokers}
    others = [address for address in nodes if address not in answers]
    more = await _probe_all(access, others[:MAX_BROKERS], limit_s)
    checks += [_check(f"broker {nodes[address]}", address, answer, access, limit_s) for address, answer in more.items()]
    if len(others) > MAX_BROKERS:
        checks.append(warning("brokers", "more", f"{len(others) - MAX_BROKERS} were not connected to"))
    return Found(checks, next((one for one in probes if one.metadata is not None), probes[0]), access)


async def check_logins(config: Config, access: BrokerAccess, address: Address) -> list[Check]:
    """Each user of `brokers.logins`, at one broker."""
    logins = [BrokerLogins(Password(one.sasl), Counter()) for one in config.brokers.logins]
    limit_s = config.connections.connect_timeout
    answers = await asyncio.gather(*(_try(replace(access, logins=one), address, limit_s) for one in logins))
    found = []
    for entry, one, answer in zip(config.brokers.logins, logins, answers, strict=True):
        name = f"{entry.username} of {', '.join(entry.principals)}"
        if isinstance(answer, Probe):
            found.append(ok("login", name, f"accepted ({entry.mechanism})"))
        else:
            found.append(failed("login", name, _text(answer, limit_s), one.credentials.remedy))
    return found


async def _probe_all(
    access: BrokerAccess, addresses: Sequence[Address], limit_s: float
) -> dict[Address, Probe | BaseException]:
    turn = asyncio.Semaphore(AT_A_TIME)

    async def one(address: Address) -> Probe | BaseException:
        async with turn:
            return await _try(access, address, limit_s)

    return dict(zip(addresses, await asyncio.gather(*map(one, addresses)), strict=True))


async def _try(access: BrokerAccess, address: Address, limit_s: float) -> Probe | BaseException:
    try:
        async with asyncio.timeout(limit_s):
            return await probe(access, address)
    except FAILURES as error:
        return error


def _check(what: str, address: Address, answer: Probe | BaseException, access: BrokerAccess, limit_s: float) -> Check:
    name = "{}:{}".format(*address)
    if isinstance(answer, Probe):
        return ok(what, name, _how(answer, access))
    return failed(what, name, _text(answer, limit_s), _remedy(answer, access))


def _how(found: Probe, access: BrokerAccess) -> str:
    parts = [found.tls or "no TLS"]
    if access.logins is not None:
        parts.append(f"logged in ({access.logins.credentials.mechanism})")
    elif found.metadata is None and not found.is_too_old:
        parts.append("wants a login: clients have to log in themselves")
    return f"answers: {', '.join(parts)}"


def _text(error: BaseException, limit_s: float) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {limit_s:g} s (connections.connect_timeout)"
    return describe_failure(error) if isinstance(error, Exception) else str(error)


def _remedy(error: BaseException, access: BrokerAccess) -> str:
    if isinstance(error, HandshakeError | ssl.SSLError):  # the reason says it
        return ""
    if isinstance(error, CodecError) or isinstance(error.__cause__, CodecError):
        return "is it Kafka that listens there, and does brokers.security_protocol say how?"
    if isinstance(error, LoginError) and access.logins is not None:
        return access.logins.credentials.remedy
    return REMEDIES[cause_of(error)]


def _check_cluster(config: Config, probes: Iterable[Probe]) -> Iterator[Check]:
    """Versions, and that all bootstrap servers lead to one cluster."""
    clusters: dict[str, str] = {}
    for one in probes:
        name = "{}:{}".format(*one.address)
        if one.is_too_old:
            have = common(one.versions, ApiKey.METADATA)
            yield failed("versions", name, f"{have}, {METADATA} is needed", USE_NEWER)
        elif one.metadata is not None:
            clusters.setdefault(str(one.metadata.cluster_id), name)
    first = next(iter(probes))
    level = first.features.get("metadata.version")
    in_force = f"; metadata.version {level}" if level is not None else ""
    apis = ", ".join(common(first.versions, key) for key in (ApiKey.PRODUCE, ApiKey.FETCH))
    yield ok("versions", "{}:{}".format(*first.address), f"{apis}{in_force}")
    if len(clusters) > 1:
        named = ", ".join(f"{cluster} at {server}" for cluster, server in clusters.items())
        yield failed("cluster", "id", f"they are {len(clusters)} clusters: {named}", "name servers of one cluster only")
    elif clusters:
        (cluster,) = clusters
        brokers = max(len(one.metadata.brokers) for one in probes if one.metadata is not None)
        yield ok("cluster", cluster, counted(brokers, "broker"))
        if config.audit.cluster is not None and config.audit.cluster != cluster:
            yield warning("cluster", cluster, f"audit.cluster is {config.audit.cluster}", "is that meant as a name?")
