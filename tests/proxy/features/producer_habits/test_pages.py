"""A running sidecar: pages and commands about producers, and what a reload changes for open connections."""

from __future__ import annotations

from typing import Any

from support.admin import command, get_json, pages
from support.fake_broker import FakeBroker
from support.in_process import config, connected, port_of
from support.produce_requests import batch, produce_request, results

from kafka_sidecar.proxy.server.server import Server

REQUIRED: dict[str, Any] = {
    "producers": [
        {"topics": ["orders"], "principals": ["User:alice"], "mode": "off"},
        {"topics": ["orders*"], "idempotence": "required", "acks": 1, "percent": 100},
        {"topics": ["pay*"], "mode": "shadow", "percent": 100, "software": {"librdkafka": ">=2.0"}},
    ]
}
POLICY_VIOLATION = 44


async def produce(client: Any, topic: str = "orders") -> int:
    """The error code."""
    frame = produce_request(9, {topic: {0: batch("one", "two")}})
    ((_, _, code, _),) = results(9, await client.ask(frame)) or [("", 0, 0, 0)]
    return code


async def rejected(server: Server) -> None:
    async with connected(port_of(server)) as client:
        assert await produce(client) == POLICY_VIOLATION


async def test_clients_are_listed_with_how_they_send() -> None:
    async with FakeBroker(1) as broker, pages(broker, **REQUIRED) as (server, port):
        assert await get_json(port, "/producers") == {"known": 0, "forgotten": 0, "producers": []}
        await rejected(server)
        found = await get_json(port, "/producers")
        (one,) = found["producers"]
        assert (found["known"], one["client_id"], one["topic"], one["not_as_required"]) == (
            1, "app", "orders", {"idempotence": 1},
        )  # fmt: skip
        assert (await get_json(port, "/producers?client_id=other"))["producers"] == []
        assert len((await get_json(port, "/producers?client_id=app&topic=orders"))["producers"]) == 1


async def test_without_producers_in_the_file_the_list_is_empty() -> None:
    async with FakeBroker(1) as broker, pages(broker) as (_, port):
        assert await get_json(port, "/producers") == {"known": 0, "forgotten": 0, "producers": []}
        assert (await get_json(port, "/topics/orders"))["producers"] == []


async def test_what_is_required_of_a_topic_is_shown_in_the_order_of_the_file() -> None:
    async with FakeBroker(1) as broker, pages(broker, **REQUIRED) as (_, port):
        off, required = (await get_json(port, "/topics/orders"))["producers"]
        assert (off["mode"], off["principals"], off["required"]) == ("off", ["User:alice"], {})
        assert required["required"] == {"acks": "1", "idempotence": "required"}
        printed = (await command(port, "topics", "orders")).output.splitlines()
        assert printed[1:] == [
            "  producers of User:alice: not looked at (from producers (entry 1), mode off)",
            "  producers: acks 1, idempotence required (from producers (entry 2), mode enforce)",
        ]
        paid = (await command(port, "topics", "pay")).output.splitlines()
        assert paid[1:] == ["  producers: software librdkafka >=2.0 (from producers (entry 3), mode shadow)"]


async def test_a_violation_is_listed_and_explained() -> None:
    async with FakeBroker(1) as broker, pages(broker, **REQUIRED) as (server, port):
        await rejected(server)
        await rejected(server)
        (one,) = (await get_json(port, "/rejections"))["rejections"]
        assert (one["policy"], one["reason"], one["producer"]["times"]) == ("(producers)", "idempotence", 2)
        assert (await get_json(port, f"/rejections/{one['id']}"))["outcome"] == "rejected"
        printed = (await command(port, "explain", one["id"])).output
        assert printed.startswith("User:ANONYMOUS, produce to orders (2 times since ")
        assert "rejected at" in printed
        assert "by producers (entry 2), mode enforce:" in printed
        unknown = f"{one['id'].partition('-')[0]}-0"
        assert "only the last 1000" in (await command(port, "explain", unknown)).output


async def test_a_reload_holds_for_connections_that_are_open() -> None:
    async with (
        FakeBroker(1) as broker,
        pages(broker, **REQUIRED) as (server, port),
        connected(port_of(server)) as client,
    ):
        assert await produce(client) == POLICY_VIOLATION
        address = server.config.bootstrap_servers[0]
        server.apply(config(address, producers=[]))
        assert await produce(client) == 0
        server.apply(config(address, producers=[{"topics": ["orders"], "client_id": "[0-9]+", "report": False}]))
        assert await produce(client) == POLICY_VIOLATION
        assert [one["reason"] for one in (await get_json(port, "/rejections"))["rejections"]] == [
            "client_id", "idempotence",
        ]  # fmt: skip


async def test_a_violation_is_among_what_the_page_of_the_admin_port_shows_as_rejected() -> None:
    async with FakeBroker(1) as broker, pages(broker, **REQUIRED) as (server, port):
        await rejected(server)
        (one,) = (await get_json(port, "/snapshot?with=rejections"))["rejections"]
        assert (one["outcome"], one["policy"], one["reason"]) == ("rejected", "(producers)", "idempotence")
        assert (one["client"], one["client_id"], one["partition"]) == ("127.0.0.1", "app", 0)
        assert one["principal"] == one["producer"]["principal"]
