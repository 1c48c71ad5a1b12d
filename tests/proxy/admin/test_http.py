"""The admin port as Kubernetes, Prometheus and careless clients use it."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from support.dialogue import request
from support.fake_broker import FakeBroker
from support.in_process import Client, connected, port_of, serving, until
from support.produce_requests import batch, produce_request
from support.topic_configs import Cluster

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.proxy.admin.http import MAX_REQUEST_BYTES, Admin, AdminProtocol
from kafka_sidecar.proxy.server import Server


@asynccontextmanager
async def admin_of(server: Server) -> AsyncIterator[int]:
    """The port of a sidecar's admin pages."""
    admin = Admin(server)
    listener = await asyncio.get_running_loop().create_server(lambda: AdminProtocol(admin), "127.0.0.1", 0)
    try:
        yield listener.sockets[0].getsockname()[1]
    finally:
        listener.close()
        await asyncio.sleep(0)


@asynccontextmanager
async def pages(*brokers: FakeBroker | str, **settings: Any) -> AsyncIterator[tuple[Server, int]]:
    async with serving(*brokers, **settings) as server, admin_of(server) as port:
        yield server, port


async def ask(port: int, raw: bytes) -> bytes:
    """All bytes of the response; the request must ask for the connection to be closed."""
    async with connected(port) as client:
        client.send(raw)
        return await client.rest()


async def get(port: int, target: str, method: str = "GET") -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body."""
    raw = await ask(port, f"{method} {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    head, _, body = raw.partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    return int(status.split()[1]), dict(line.lower().split(": ", 1) for line in lines), body


async def test_without_a_cluster_it_is_live_but_not_ready() -> None:
    async with pages("127.0.0.1:1") as (_, port):
        assert (await get(port, "/livez"))[0] == 200
        status, _, body = await get(port, "/readyz")
        state = json.loads(body)
        assert (status, state["ready"], state["listening"], state["cluster_reached"]) == (503, False, True, False)


async def test_it_is_ready_once_the_cluster_was_reached_and_lists_its_brokers() -> None:
    async with FakeBroker(1) as broker, pages(broker) as (server, port):
        await until(lambda: server.addresses.nodes)
        async with connected(port_of(server)) as client:
            await client.ask(request(ApiKey.HEARTBEAT, 3, 1))
            status, headers, body = await get(port, "/readyz")
        assert (status, headers["content-type"]) == (200, "application/json")
        assert json.loads(body) == {
            "ready": True, "listening": True, "cluster_reached": True, "listen": server.config.listen,
            "nodes": {"1": {"broker": broker.address, "port": port_of(server, 1)}}, "connections": 1, "topics_known": 0,
            "connects_to_itself": [],
            "topic_configs": "disabled",
        }  # fmt: skip


async def test_it_is_not_ready_while_its_topic_configs_are_lost_until_they_are_recovered() -> None:
    cluster = Cluster()
    async with FakeBroker(1) as broker, pages(broker) as (server, port), cluster.sidecar() as configs:
        await until(lambda: server.metrics.cluster_reached)
        server.features.topic_configs = configs

        async def state() -> tuple[int, str]:
            status, _, body = await get(port, "/readyz")
            return status, json.loads(body)["topic_configs"]

        assert await state() == (200, "ready")
        cluster.stores[0].trouble = "no broker answers"
        assert await state() == (200, "ready")
        cluster.stores[0].lose("it was deleted")
        assert await state() == (503, "the sidecar's topic configs are lost: it was deleted")
        assert b'kafka_sidecar_topic_configs_trouble{reason="lost"} 1.0' in (await get(port, "/metrics"))[2]
        cluster.stores[0].trouble = None
        server.features.recover()
        assert await state() == (200, "ready")
        server.features.topic_configs = None
        server.features.recover()


async def test_it_stays_ready_after_the_cluster_went_away() -> None:
    async with FakeBroker(1) as broker, pages(broker) as (server, port):
        await until(lambda: server.metrics.cluster_reached)
        await broker.stop()
        assert (await get(port, "/readyz"))[0] == 200


async def test_a_draining_sidecar_is_live_but_not_ready() -> None:
    async with FakeBroker(1) as broker, pages(broker) as (server, port), connected(port_of(server)) as client:
        await client.ask(request(ApiKey.HEARTBEAT, 3, 1))
        draining = asyncio.ensure_future(server.drain(asyncio.Event()))
        await until(lambda: not server.listening)
        assert [(await get(port, page))[0] for page in ("/readyz", "/livez")] == [503, 200]
        client.close()
        await draining


async def test_the_last_rejected_batches_are_listed_newest_first_without_payloads() -> None:
    guarded: dict[str, Any] = {
        "policies": {"stub": {"type": "support.policies:Stub"}},
        "topics": [{"name": "orders", "policy": "stub"}],
    }
    async with FakeBroker(1) as broker, pages(broker, **guarded) as (server, port):
        async with connected(port_of(server)) as client:
            await client.ask(produce_request(9, {"orders": {3: batch("bad 4111")}}))
            await client.ask(produce_request(9, {"orders": {4: batch("good", "bad 4111", "bad")}}))
        status, _, body = await get(port, "/rejections")
        newest, oldest = json.loads(body)["rejections"]
        assert (status, newest["partition"], oldest["partition"]) == (200, 4, 3)
        assert abs(datetime.fromisoformat(newest.pop("timestamp")).timestamp() - time.time()) < 60
        assert newest == {
            "topic": "orders", "partition": 4, "mode": "enforce", "policy": "stub", "reason": "bad", "index": 1,
            "message": "orders takes no bad", "rejected_records": 2, "client_id": "app",
        }  # fmt: skip
        assert b"4111" not in body


async def test_without_validation_no_rejected_batches_are_listed() -> None:
    async with pages("127.0.0.1:1") as (_, port):
        assert json.loads((await get(port, "/rejections"))[2]) == {"rejections": []}


async def test_prometheus_parses_the_metrics() -> None:
    async with FakeBroker(1) as broker, pages(broker) as (server, port):
        async with connected(port_of(server)) as client:
            await client.ask(request(ApiKey.HEARTBEAT, 3, 1))
        status, headers, body = await get(port, "/metrics?name[]=x")
        assert (status, headers["content-type"].partition(";")[0]) == (200, "text/plain")
        families = {family.name: family for family in text_string_to_metric_families(body.decode())}
        (sample,) = families["kafka_sidecar_client_to_proxy_request"].samples
        assert (sample.labels, sample.value) == ({"api_key": "Heartbeat"}, 1)


@pytest.mark.parametrize("target", ["/", "/metrics/", "/livez/x", "*", "/%2e%2e/livez", "http://x/livez"])
async def test_an_unknown_page_is_404_with_a_list_of_pages(target: str) -> None:
    async with pages("127.0.0.1:1") as (_, port):
        status, _, body = await get(port, target)
        assert (status, json.loads(body)["pages"]) == (404, ["/livez", "/metrics", "/readyz", "/rejections"])


@pytest.mark.parametrize("method", ["POST", "DELETE", "OPTIONS", "PATCH"])
async def test_other_methods_than_get_and_head_are_405(method: str) -> None:
    async with pages("127.0.0.1:1") as (_, port):
        assert (await get(port, "/livez", method))[0] == 405


async def test_head_gets_the_headers_without_the_body() -> None:
    async with pages("127.0.0.1:1") as (_, port):
        _, headers, body = await get(port, "/livez")
        head_status, head_headers, head_body = await get(port, "/livez", "HEAD")
        assert (head_status, head_headers, head_body) == (200, headers, b"")
        assert int(headers["content-length"]) == len(body)


async def test_one_connection_serves_many_requests_in_one_chunk_or_byte_by_byte() -> None:
    raw = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n" * 3 + b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    async with pages("127.0.0.1:1") as (_, port):
        whole = await ask(port, raw)
        assert whole.count(b"HTTP/1.1 200") == 4
        async with connected(port) as client:
            for at in range(len(raw)):
                client.send(raw[at : at + 1])
                await client.flush()
            assert await client.rest() == whole


async def test_a_request_body_is_skipped() -> None:
    raw = (
        b"POST /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello"
        b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    )
    async with pages("127.0.0.1:1") as (_, port):
        answers = (await ask(port, raw)).split(b"HTTP/1.1 ")[1:]
        assert [answer[:3] for answer in answers] == [b"405", b"200"]


async def test_http_1_0_gets_a_response_and_a_close() -> None:
    async with pages("127.0.0.1:1") as (_, port):
        assert b"200" in await ask(port, b"GET /livez HTTP/1.0\r\n\r\n")


NOT_HTTP = {
    "Kafka": request(ApiKey.API_VERSIONS, 3, 1, bytes(40)),
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n",
    "half a line": b"GET\r\n\r\n",
    "empty lines": b"\r\n" * 20_000,
    "an endless header": b"GET / HTTP/1.1\r\nX: " + b"x" * (2 * MAX_REQUEST_BYTES),
    "no host": b"GET / HTTP/1.1\r\n\r\n",
    "a tunnel": b"CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\nmore",
}


@pytest.mark.parametrize("name", NOT_HTTP)
async def test_invalid_http_breaks_nothing(name: str) -> None:
    errors: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: errors.append(context))
    async with pages("127.0.0.1:1") as (_, port):
        client = await Client.connect(port)
        client.send(NOT_HTTP[name])
        assert (await client.some())[:12] == (b"HTTP/1.1 405" if name == "a tunnel" else b"")
        client.send(b"x")
        client.close()
        assert (await get(port, "/livez"))[0] == 200
    assert errors == []
