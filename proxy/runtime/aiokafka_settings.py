"""The sidecar's own clients of aiokafka, with what aiokafka's settings cannot say.

Those are the local address, TLS and logins that are renewed, and to create no topics but by `create_topic`. Only
clients that are given here change: aiokafka's modules and classes stay as they are, for plug-ins that use it too.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import partial
from types import FunctionType, MethodType
from typing import Any, TypeVar

from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.client import AIOKafkaClient
from aiokafka.conn import AIOKafkaConnection
from aiokafka.protocol.metadata import MetadataRequest

from kafka_sidecar.codec.apis import ErrorCode
from kafka_sidecar.codec.wire import LENGTH
from kafka_sidecar.proxy.runtime.logins import EARLIEST
from kafka_sidecar.proxy.security.sasl.broker_logins import BrokerLogins
from kafka_sidecar.proxy.security.tls.broker_access import OWN_CLIENT_ID, BrokerAccess

T = TypeVar("T")

# Clients that may not create the topic may still use it, if it exists.
GO_ON = {
    ErrorCode.NONE,
    ErrorCode.TOPIC_ALREADY_EXISTS,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
}


class NotCreatedError(OSError):
    """Brokers do not create a topic. The text names it."""

    def __init__(self, topic: str, code: int, message: str) -> None:
        super().__init__(f"the topic {topic} cannot be created: {message or code}")
        self.code = code


RETRY_MS = 100
CONNECTING = ("bootstrap", "_get_conn")  # the methods of a client that call the function `create_conn` of its module
LONG_POLL_MS = 2000  # the longest wait of a fetch: what is sent after it on the same connection waits, too
NAMING_TOPICS = ("_metadata_update",)  # those that send a MetadataRequest with topics


def connect_with(access: BrokerAccess, client: AIOKafkaClient) -> None:
    """Let a client connect as the sidecar does: from its address, with the certificates and credentials of now."""

    async def create_conn(host: str, port: int, **settings: Any) -> AIOKafkaConnection:
        connection = AIOKafkaConnection(host, port, **{**settings, "ssl_context": access.context})
        if access.source_address is not None:
            connection._loop = _Loop(connection._loop, access.source_address)
        if access.logins is not None:
            _log_in_with(access.logins, connection, f"{host}:{port}")
        await connection.connect()
        return connection

    _replace_globals(client, CONNECTING, create_conn=create_conn)


def _log_in_with(logins: BrokerLogins, connection: AIOKafkaConnection, address: str) -> None:
    """Let a connection log in as the sidecar's others do, and again before its session is over (KIP-368)."""
    clock, turn, send = connection._loop.time, asyncio.Lock(), connection.send
    is_due_at = float("inf")

    async def request(frame: bytes) -> bytes:
        response: bytes = await connection._send_sasl_token(frame[LENGTH.size :])  # sends its length, and any bytes
        return LENGTH.pack(len(response)) + response

    async def log_in() -> None:
        nonlocal is_due_at
        lifetime_s = await logins.perform(request, address)
        is_due_at = clock() + usable_s(lifetime_s) if lifetime_s else float("inf")

    async def send_logged_in(*arguments: Any, **more: Any) -> Any:
        if clock() >= is_due_at:
            async with turn:  # what is sent meanwhile would be taken for a part of the login
                if clock() >= is_due_at:
                    await log_in()
        return await send(*arguments, **more)

    connection._do_sasl_handshake = log_in
    connection.send = send_logged_in


def usable_s(lifetime_s: float) -> float:
    """How long requests may be sent before the next login: the broker reads the last one within the lifetime."""
    return max(lifetime_s / 4, min(lifetime_s * EARLIEST, lifetime_s - 1.5 * LONG_POLL_MS / 1000))


def create_no_topics(client: AIOKafkaClient) -> None:
    """Let brokers not create the topics that the client reads or writes, whatever auto.create.topics.enable says."""
    _replace_globals(client, NAMING_TOPICS, MetadataRequest=partial(MetadataRequest, allow_auto_topic_creation=False))


def _replace_globals(client: AIOKafkaClient, methods: tuple[str, ...], **replacements: Any) -> None:
    """Let methods of one client run the same code with other objects among what it sees as globals."""
    for name in methods:
        own = getattr(AIOKafkaClient, name)
        method = FunctionType(own.__code__, {**own.__globals__, **replacements}, name, own.__defaults__)
        method.__kwdefaults__ = own.__kwdefaults__
        setattr(client, name, MethodType(method, client))


class _Loop:
    """An event loop whose connections begin at one local address."""

    def __init__(self, loop: Any, source: str) -> None:
        self._loop = loop
        self._source = source

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)

    async def create_connection(self, *args: Any, **more: Any) -> Any:
        return await self._loop.create_connection(*args, **more, local_addr=(self._source, 0))


# Who uses these clients reports what happens to them, once.
logging.getLogger("aiokafka").setLevel(logging.CRITICAL)


def create_client(kind: Callable[..., T], access: BrokerAccess, **settings: Any) -> T:
    """One of aiokafka's three kinds of clients, which hold the client that connects under two names.

    Args:
        kind: its class.
        access: how brokers are connected to.
        settings: aiokafka's own.
    """
    created = kind(client_id=OWN_CLIENT_ID, retry_backoff_ms=RETRY_MS, **access.aiokafka_settings, **settings)
    client = getattr(created, "client", None) or created._client  # type: ignore[attr-defined]
    create_no_topics(client)
    if access != BrokerAccess():
        connect_with(access, client)
    return created


async def start_producer(access: BrokerAccess, **settings: Any) -> AIOKafkaProducer:
    """A producer that is connected and writes to all replicas in sync. Raises what aiokafka raises."""
    producer = create_client(AIOKafkaProducer, access, acks="all", **settings)
    try:
        await producer.start()
    except BaseException:
        await producer.stop()
        raise
    return producer


async def create_topic(
    access: BrokerAccess, topic: str, partitions: int, replication_factor: int, configs: Mapping[str, str],
    **settings: Any,
) -> int:  # fmt: skip
    """Create a topic unless it exists; -1 is the cluster's default. An error code after which it may still be there.

    Raises NotCreatedError: no broker can create it; and what aiokafka raises.
    """
    wanted = NewTopic(topic, num_partitions=1, replication_factor=1, topic_configs=dict(configs))
    wanted.num_partitions, wanted.replication_factor = partitions, replication_factor  # its constructor takes no -1
    admin: Any = create_client(AIOKafkaAdminClient, access, **settings)
    try:
        await admin.start()
        created = await admin.create_topics([wanted], timeout_ms=settings["request_timeout_ms"])
    finally:
        await admin.close()
    found = 0
    for _, code, *message in created.topic_errors:
        if code not in GO_ON:
            raise NotCreatedError(topic, code, (message[0] or "") if message else "")
        found = code
    return found
