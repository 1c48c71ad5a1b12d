"""aiokafka has no setting for the address that it connects from; `connections.source_address` holds for it too."""

from __future__ import annotations

from typing import Any

import aiokafka.conn
from aiokafka.conn import AIOKafkaConnection


def connect_from(host: str) -> None:
    """Let every aiokafka client of this process connect from this address."""

    class FromThere(AIOKafkaConnection):  # type: ignore[misc]
        _loop: Any

        async def connect(self) -> Any:
            self._loop = _Loop(self._loop, host)
            return await super().connect()

    aiokafka.conn.AIOKafkaConnection = FromThere


class _Loop:
    """An event loop whose connections begin at one local address."""

    def __init__(self, loop: Any, host: str) -> None:
        self._loop = loop
        self._host = host

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)

    async def create_connection(self, *args: Any, **more: Any) -> Any:
        return await self._loop.create_connection(*args, **more, local_addr=(self._host, 0))
