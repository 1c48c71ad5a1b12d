"""A sidecar that rejects records, and the ids by which its clients can find out why."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from kafka_sidecar.proxy.server.server import Server
from support.admin import pages
from support.fake_broker import FakeBroker
from support.in_process import connected, port_of
from support.produce_requests import batch, produce_request, read

STUB = {"stub": {"type": "support.policies:Stub", "refused": "bad"}}
EXPLAIN = re.compile(r"\(kafka-sidecar explain (\S+)\)")
SECRET = "4111"


@asynccontextmanager
async def guarded(**settings: Any) -> AsyncIterator[tuple[Server, int]]:
    own = {"policies": STUB, "topics": [{"name": "orders", "policy": "stub"}], **settings}
    async with FakeBroker(1) as broker, pages(broker, **own) as (server, port):
        yield server, port


async def send(server: Server, *values: str, partition: int = 3) -> Any:
    """The response."""
    async with connected(port_of(server)) as client:
        return read(9, await client.ask(produce_request(9, {"orders": {partition: batch(*values)}})))


async def produce(server: Server, *values: str, partition: int = 3) -> Any:
    """The response of one partition that is rejected."""
    return (await send(server, *values, partition=partition)).responses[0].partition_responses[0]


async def rejected(server: Server, *values: str) -> str:
    """The id that the client gets."""
    found = EXPLAIN.search((await produce(server, *values)).error_message)
    assert found is not None
    return found[1]
