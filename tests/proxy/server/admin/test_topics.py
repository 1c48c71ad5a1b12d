"""What applies to each topic, at the admin port: policies, interceptors, and which entry decides."""

from __future__ import annotations

from typing import Any

from support.admin import command, get_json, pages
from support.dialogue import request
from support.fake_broker import FakeBroker
from support.in_process import config, connected, port_of
from support.topic_configs import Cluster

from kafka_sidecar.codec.apis import ApiKey

SETTINGS: dict[str, Any] = {
    "policies": {"small": {"type": "limits", "max_value_bytes": 10}},
    "topics": [
        {"name": "orders", "policy": "small, json", "mode": "shadow"},
        {"name": "pay*", "policy": "json", "percent": 30},
        {"name": "off*", "policy": "json", "mode": "off"},
    ],
    "interceptors": [
        {"type": "counting", "topics": ["orders", "x*"]},
        {"type": "add_header", "name": "tag", "headers": {"auth-token": "hunter2"}},
    ],
}


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
        assert "hunter2" not in str(found)


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
        assert (payments["topic"], payments["topic_id"]) == ("payments", "07".rjust(32, "0"))
        assert payments["validation"]["source"] == "topics: pay*"
        assert payments["interceptors"] == ["tag"]


async def test_a_policy_that_is_set_on_the_topic_itself_is_named_as_its_source() -> None:
    cluster = Cluster()
    async with pages("127.0.0.1:1", **SETTINGS) as (server, port), cluster.sidecar():
        assert server.features.validator is not None
        server.features.validator.rules._topic_config = lambda topic, topic_id: "nonsense" if topic == "bad" else "json"
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
