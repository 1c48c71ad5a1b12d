"""The table of pages, without HTTP."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
from support.admin import command, get, get_json, pages
from support.dialogue import request
from support.fake_broker import FakeBroker
from support.in_process import config, connected, port_of, until
from support.topic_configs import Cluster

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.policies.contract import TopicPolicy
from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.server.admin import pages as pages_module
from kafka_sidecar.proxy.server.admin.page import Page, json_page
from kafka_sidecar.proxy.server.admin.pages import Admin
from kafka_sidecar.proxy.server.server import Server
from kafka_sidecar.proxy.telemetry.metrics import Metrics

SETTINGS: dict[str, Any] = {
    "policies": {"small": {"type": "limits", "max_value_bytes": 10}},
    "topics": [
        {"name": "orders", "policy": "small, json", "mode": "shadow"},
        {"name": "pay*", "policy": "json", "percent": 30},
        {"name": "off*", "policy": "json", "mode": "off"},
    ],
    "interceptors": [
        {"type": "counting", "topics": ["orders", "x*"]},
        {"type": "add_header", "name": "tag", "headers": {"auth-token": {"env": "PATH"}}},
    ],
}


@pytest.fixture
async def admin() -> Admin:
    return Admin(Server(config("127.0.0.1:1"), Metrics()))


def test_a_page_of_a_value_is_one_line_of_json() -> None:
    page = json_page(200, {"live": True})
    assert (page.status, page.content_type, page.body) == (200, "application/json", b'{"live": true}\n')


async def test_the_query_of_a_target_is_ignored(admin: Admin) -> None:
    assert admin.own_page("/livez?verbose=1").status == 200
    assert admin.own_page("/livez/?verbose=1").status == 404


async def test_only_metrics_have_to_wait_and_only_after_they_were_rendered(admin: Admin) -> None:
    assert [admin.wait_s(target) for target in ("/metrics", "/livez")] == [0.0, 0.0]
    admin.page("/metrics")
    assert 0.0 < admin.wait_s("/metrics?name[]=x") <= 1.0
    assert admin.wait_s("/livez") == 0.0


async def test_a_page_that_is_forbidden_names_the_setting(admin: Admin) -> None:
    page = admin.page("/metrics", host="attacker.example.com")
    assert isinstance(page, Page)
    assert (page.status, "admin.allowed_hosts" in json.loads(page.body)["error"]) == (403, True)


async def test_open_connections_are_listed_newest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    async with FakeBroker(1) as broker, pages(broker) as (server, port):
        assert await get_json(port, "/connections") == {"open": 0, "connections": []}
        async with connected(port_of(server)) as one, connected(port_of(server)) as other:
            for client in (one, other):
                await client.ask(request(ApiKey.HEARTBEAT, 3, 1))
            found = await get_json(port, "/connections")
            assert (found["open"], [each["session"] for each in found["connections"]]) == (2, [2, 1])
            monkeypatch.setattr(pages_module, "MAX_CONNECTIONS_LISTED", 1)
            found = await get_json(port, "/connections")
            assert (found["open"], [each["session"] for each in found["connections"]]) == (2, [2])


async def test_a_query_chooses_connections_by_client_and_listener() -> None:
    async with (
        FakeBroker(1) as broker,
        pages(broker) as (server, port),
        connected(port_of(server)) as one,
        connected(port_of(server)) as other,
    ):
        await one.ask(request(ApiKey.HEARTBEAT, 3, 1, client_id=b"shop 1"))
        await other.ask(request(ApiKey.HEARTBEAT, 3, 1, client_id=b"other"))
        peer = next(each.peer for each in server.connections if each.number == 1)

        async def found(query: str) -> list[int]:
            return [each["session"] for each in (await get_json(port, f"/connections?{query}"))["connections"]]

        assert await found("client_id=shop%201") == [1]
        assert await found(f"client={peer}&listener=bootstrap") == [1]
        assert await found("client=127.0.0.1") == [2, 1]
        assert await found("listener=node%201") == []
        assert await found("principal=User:alice") == []
        assert await found("paused=true") == []
        assert await found("old=true") == []


async def test_connections_that_have_ended_are_listed_the_last_one_first_and_chosen_alike() -> None:
    async with FakeBroker(1) as broker, pages(broker) as (server, port):
        for name in (b"first", b"second"):
            async with connected(port_of(server)) as client:
                await client.ask(request(ApiKey.HEARTBEAT, 3, 1, client_id=name))
            await until(lambda: not server.connections)
        found = await get_json(port, "/connections?closed=true")
        assert (found["open"], [one["client_id"] for one in found["connections"]]) == (0, ["second", "first"])
        assert {one["cause"] for one in found["connections"]} == {"client_closed"}
        (one,) = (await get_json(port, "/connections?closed=true&client_id=first&client=127.0.0.1"))["connections"]
        assert one["session"] == 1


async def test_a_paused_connection_and_one_with_removed_versions_are_found() -> None:
    async with FakeBroker(1) as broker, pages(broker) as (server, port), connected(port_of(server)) as client:
        await client.ask(request(ApiKey.DELETE_TOPICS, 0, 1))
        (one,) = server.connections
        one.client.pause("a test")
        (found,) = (await get_json(port, "/connections?paused=true"))["connections"]
        assert [pause["reason"] for pause in found["pauses"]] == ["a test"]
        one.client.resume("a test")
        assert (await get_json(port, "/connections?paused=true"))["connections"] == []
        (found,) = (await get_json(port, "/connections?old=true"))["connections"]
        assert found["removed_apis"] == ["DeleteTopics v0"]


async def test_the_configuration_in_force_is_that_of_the_last_reload_and_of_the_start() -> None:
    async with FakeBroker(1) as broker, pages(broker) as (server, port):
        servers = server.config.bootstrap_servers
        changed = Config.model_validate({"bootstrap_servers": servers, "topics": [{"name": "orders"}]})
        server.apply(changed)
        found = await get_json(port, "/configuration")
        assert [one["name"] for one in found["values"]["topics"]] == ["orders"]
        assert found["values"]["listen"] == server.config.listen != changed.listen
        assert {"topics", "policies"} < set(found["reloaded"])


async def test_the_last_requests_of_one_connection_are_shown() -> None:
    async with FakeBroker(1) as broker, pages(broker) as (server, port), connected(port_of(server)) as client:
        await client.ask(request(ApiKey.HEARTBEAT, 3, 7))
        (found,) = (await get_json(port, "/connections/1"))["connections"]
        assert (found["session"], [line["correlation_id"] for line in found["last_requests"]]) == (1, [7])
        status, _, body = await get(port, "/connections/2")
        assert (status, json.loads(body)) == (404, {"error": "connection 2 is not open"})


async def test_no_requests_are_recorded_where_that_is_disabled() -> None:
    settings = {"connections": {"recorded_requests": 0}}
    async with (
        FakeBroker(1) as broker,
        pages(broker, **settings) as (server, port),
        connected(port_of(server)) as client,
    ):
        await client.ask(request(ApiKey.HEARTBEAT, 3, 7))
        (found,) = (await get_json(port, "/connections/1"))["connections"]
        assert found["last_requests"] == []


async def test_a_topic_is_shown_with_the_entry_that_decides_and_effective_settings() -> None:
    async with pages("127.0.0.1:1", **SETTINGS) as (_, port):
        found = await get_json(port, "/topics/orders")
        validation = found["validation"]
        assert (validation["source"], validation["mode"]) == ("topics: orders", "shadow")
        assert [policy["name"] for policy in validation["policies"]] == ["small", "json"]
        assert validation["policies"][0]["settings"]["max_value_bytes"] == 10
        tally, tag = found["interceptors"]
        assert (tally["name"], tally["source"]) == ("counting", "topics: orders")
        assert (tag["name"], tag["source"], tag["hooks"], tag["disabled"]) == ("tag", "topics: *", ["on_send"], False)
        assert os.environ["PATH"] not in str(found)


async def test_a_topic_is_shown_with_what_each_feature_says_of_it() -> None:
    settings = {
        "topics": [{"name": "*.dlq"}, {"name": "orders", "policy": "json", "dead_letters": "{topic}.dlq"}],
        "rate_limits": [{"name": "shop", "topics": ["orders"], "produce_records": 100}],
    }
    async with pages("127.0.0.1:1", **settings) as (_, port):
        said = (await get_json(port, "/topics/orders"))["features"]
        assert said["rate_limits"] == {"rate limits": ["shop"]}
        assert said["dead_letters"]["dead letters"] == "orders.dlq"
        assert "rate_limits" not in (await get_json(port, "/topics/words"))["features"]


async def test_a_topic_without_a_policy_says_why() -> None:
    async with pages("127.0.0.1:1", **SETTINGS) as (_, port):
        for name, why in [("words", "no entry of topics: matches its name"), ("off-1", "topics: off* has mode off")]:
            assert (await get_json(port, f"/topics/{name}"))["validation"]["why"] == why
    async with pages("127.0.0.1:1") as (_, port):
        found = await get_json(port, "/topics/words")
        assert (found["validation"]["why"], found["interceptors"]) == ("no policies are configured", [])


async def test_known_and_configured_topics_are_listed_in_short() -> None:
    async with FakeBroker(1) as broker, pages(broker, **SETTINGS) as (server, port):
        async with connected(port_of(server)) as client:
            await client.ask(request(ApiKey.HEARTBEAT, 3, 1))
        server.topics.remember([(bytes(15) + b"\7", "payments")])
        found = await get_json(port, "/topics")
        orders, payments = found["topics"]
        assert (found["known"], orders["topic"], orders["topic_id"]) == (2, "orders", None)
        assert (payments["topic"], payments["topic_id"]) == ("payments", "AAAAAAAAAAAAAAAAAAAABw")
        assert payments["validation"]["source"] == "topics: pay*"
        assert payments["interceptors"] == ["tag"]


async def test_a_policy_that_is_set_on_the_topic_itself_is_named_as_its_source() -> None:
    cluster = Cluster()
    async with pages("127.0.0.1:1", **SETTINGS) as (server, port), cluster.sidecar():
        assert server.features.validator is not None
        server.features.validator.rules._topic_config = lambda topic, topic_id: TopicPolicy(
            "nonsense" if topic == "bad" else "json"
        )
        found = await get_json(port, "/topics/orders")
        assert (found["validation"]["source"], found["validation"]["mode"]) == ("the topic's config", "shadow")
        assert "invalid on this sidecar" in (await get_json(port, "/topics/bad"))["validation"]["why"]


async def test_the_hash_of_the_configuration_changes_with_what_is_reloaded() -> None:
    async with pages("127.0.0.1:1", **SETTINGS) as (server, port):
        before = (await get_json(port, "/topics"))["configuration"]
        server.apply(config("127.0.0.1:1", **{**SETTINGS, "interceptors": []}))
        after = (await get_json(port, "/topics"))["configuration"]
        server.apply(config("127.0.0.1:1", **SETTINGS))
        assert (await get_json(port, "/topics"))["configuration"] == before != after


async def test_the_command_prints_topics_in_lines() -> None:
    async with pages("127.0.0.1:1", **SETTINGS) as (_, port):
        printed = await command(port, "topics", "pay-1")
        assert printed.exit_code == 0, printed.output
        first, policy, tag = printed.output.splitlines()
        assert first.startswith("pay-1: json (from topics: pay*, mode enforce for 30 % of the batches, hash ")
        assert policy.startswith(
            "  policy 1. json: kafka_sidecar.policies.builtin.json:WellFormedJson; reads the value;"
        )
        assert tag.startswith("  interceptor 1. tag: ")
        assert (await command(port, "topics", "words")).output.startswith("words: not validated: no entry")
        listed = (await command(port, "topics")).output.splitlines()
        assert listed[0].startswith("orders: small, json (from topics: orders, mode shadow, hash ")
        assert listed[1:] == ["  interceptor 1. counting", "  interceptor 2. tag"]
        assert '"known": 1' in (await command(port, "topics", "--json")).output
