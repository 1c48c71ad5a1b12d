"""A response that was buffered whole counts as buffered until the client has read it."""

from __future__ import annotations

from support import oracle
from support.fake_broker import FakeBroker, Request
from support.in_process import connected, port_of, serving, until

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.proxy.server import Server

SIZE = 16 << 20  # more than sockets buffer
VERSION = 9


async def describe_many(broker: FakeBroker, request: Request) -> bytes:
    """A Metadata response of `SIZE`: topics with long names."""
    topics = [{"name": f"{number:020000}"} for number in range(SIZE // 20_000)]
    brokers = [{"node_id": 1, "host": broker.host, "port": broker.port}]
    response = oracle.response(ApiKey.METADATA, VERSION, brokers=brokers, topics=topics)
    return oracle.response_frame(response, request.correlation_id)


def is_slow(server: Server) -> bool:
    """Whether the response has been written, and the client does not read it."""
    return any("the client reads slowly" in connection.client.reasons for connection in server.connections)


METADATA = oracle.request_frame(oracle.request(ApiKey.METADATA, VERSION), 8)


async def test_it_is_released_when_the_client_has_read_it() -> None:
    async with FakeBroker() as broker, serving(broker) as server, connected(port_of(server)) as client:
        broker.answers[ApiKey.METADATA] = describe_many
        client.pause()
        client.send(METADATA)
        await until(lambda: is_slow(server))
        assert server.memory.spent > SIZE // 4
        client.resume()
        assert len(await client.frame()) > 0.9 * SIZE
        await until(lambda: server.memory.spent == 0)


async def test_it_is_released_when_the_client_goes() -> None:
    async with FakeBroker() as broker, serving(broker) as server, connected(port_of(server)) as client:
        broker.answers[ApiKey.METADATA] = describe_many
        client.pause()
        client.send(METADATA)
        await until(lambda: is_slow(server))
        client.abort()
        await until(lambda: server.memory.spent == 0 and not server.connections)
