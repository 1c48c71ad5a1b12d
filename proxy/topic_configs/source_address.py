"""aiokafka has no setting for the address that it connects from; `connections.source_address` holds for it too.

Only clients that are given here change: aiokafka's modules and classes stay as they are, for plug-ins that use it too.
"""

from __future__ import annotations

from types import FunctionType, MethodType
from typing import Any

from aiokafka.client import AIOKafkaClient
from aiokafka.conn import AIOKafkaConnection

CONNECTING = ("bootstrap", "_get_conn")  # the methods of a client that call the function `create_conn` of its module


def connect_from(source: str, client: AIOKafkaClient) -> None:
    """Let a client that has not connected yet connect from this address."""

    async def create_conn(host: str, port: int, **settings: Any) -> AIOKafkaConnection:
        connection = AIOKafkaConnection(host, port, **settings)
        connection._loop = _Loop(connection._loop, source)
        await connection.connect()
        return connection

    for name in CONNECTING:
        own = getattr(AIOKafkaClient, name)
        # The same code, but with another `create_conn` among what it sees as globals.
        method = FunctionType(own.__code__, {**own.__globals__, "create_conn": create_conn}, name, own.__defaults__)
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
