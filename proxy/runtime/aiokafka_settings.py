"""Two settings that aiokafka does not have: the address that a client connects from, and that it creates no topics.

Only clients that are given here change: aiokafka's modules and classes stay as they are, for plug-ins that use it too.
"""

from __future__ import annotations

from functools import partial
from types import FunctionType, MethodType
from typing import Any

from aiokafka.client import AIOKafkaClient
from aiokafka.conn import AIOKafkaConnection
from aiokafka.protocol.metadata import MetadataRequest

CONNECTING = ("bootstrap", "_get_conn")  # the methods of a client that call the function `create_conn` of its module
NAMING_TOPICS = ("_metadata_update",)  # those that send a MetadataRequest with topics


def connect_from(source: str, client: AIOKafkaClient) -> None:
    """Let a client that has not connected yet connect from this address: `connections.source_address`."""

    async def create_conn(host: str, port: int, **settings: Any) -> AIOKafkaConnection:
        connection = AIOKafkaConnection(host, port, **settings)
        connection._loop = _Loop(connection._loop, source)
        await connection.connect()
        return connection

    _replace_globals(client, CONNECTING, create_conn=create_conn)


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
