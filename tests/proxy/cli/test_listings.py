"""`connections`, `rejections` and `topics`: one line each, chosen by filters, hostile names as text."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

from support import oracle
from support.admin import command, pages
from support.commands import CliRunner
from support.dialogue import request
from support.fake_broker import FakeBroker
from support.in_process import connected, port_of
from support.rejecting import SECRET, guarded, produce, rejected
from support.snapshots import admin_port

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.proxy.cli.main import app

HOSTILE = "evil\x1b]0;title\x07\n‮name"
CONNECTION: dict[str, Any] = {
    "session": 6, "listener": "node 1", "client": "10.0.0.7:4711", "client_id": "shop", "client_software": "java 4.3.1",
    "principal": "User:alice", "duration_s": 93784.0, "requests": 1234, "responses": 1234, "in_flight": 1,
    "bytes_from_client": 1536, "bytes_from_broker": 10, "oldest_s": 2.5, "pauses": [], "removed_apis": [],
}  # fmt: skip


def paused(session: int, reason: str) -> dict[str, Any]:
    return {**CONNECTION, "session": session, "pauses": [{"side": "client", "reason": reason, "for_s": 3.0}]}


def listed(*words: str, pages: dict[str, Any]) -> tuple[str, dict[str, list[str]]]:
    """The output, and the query that was sent."""
    with admin_port(pages) as server:
        made = CliRunner().invoke(app, [*words, "--admin", server.address])
    assert made.exit_code == 0, made.output
    return made.output, parse_qs(urlsplit(server.asked[0]).query)


def test_connections_that_wait_come_first() -> None:
    rows = [{**CONNECTION, "session": 1, "oldest_s": None}, CONNECTION, paused(2, "rate limit all")]
    output, query = listed("connections", pages={"/connections": {"open": 3, "connections": rows}})
    lines = output.splitlines()
    assert query == {}
    assert lines[0].split()[:3] == ["session", "client", "id"]
    assert [line.split()[0] for line in lines[1:4]] == ["2", "6", "1"]
    assert "client: rate limit all, for 3 s" in lines[1]
    assert "User:alice" in lines[2]
    assert "1d 2h" in lines[2]
    assert lines[4] == "3 shown of 3 open"


def test_filters_of_connections_are_asked_of_the_sidecar_which_knows_all() -> None:
    words = ("--client-id", "shop & co", "--principal", "User:alice", "--client", "10.0.0.7", "--old", "--paused")
    output, query = listed("connections", *words, pages={"/connections": {"open": 9, "connections": []}})
    assert output.splitlines()[0] == "no connections"
    assert query == {
        "client_id": ["shop & co"], "principal": ["User:alice"], "client": ["10.0.0.7"], "old": ["true"],
        "paused": ["true"],
    }  # fmt: skip


def test_the_connections_of_several_workers_say_whose_they_are() -> None:
    rows = [{**CONNECTION, "worker": 2}, {**CONNECTION, "worker": 1}]
    output, _ = listed("connections", pages={"/connections": {"open": 2, "connections": rows}})
    assert [line.split()[0] for line in output.splitlines()[:3]] == ["worker", "2", "1"]


def test_connections_that_have_ended_keep_their_reason() -> None:
    row = {
        **CONNECTION, "ended": "2026-11-27T08:00:00.000Z", "cause": "protocol_error", "reason": "too_large",
        "detail": "a frame of 2 GB",
    }  # fmt: skip
    output, query = listed("connections", "--closed", pages={"/connections": {"open": 0, "connections": [row]}})
    assert query == {"closed": ["true"]}
    assert "protocol_error" in output
    assert "too_large: a frame of 2 GB" in output


def test_hostile_names_of_connections_are_text_in_one_line() -> None:
    rows = [{**CONNECTION, "client_id": HOSTILE, "principal": HOSTILE, "client_software": HOSTILE * 100}]
    output, _ = listed("connections", pages={"/connections": {"open": 1, "connections": rows}})
    assert not {"\x1b", "\x07", "‮"} & set(output)
    assert len(output.splitlines()) == 3
    assert max(map(len, output.splitlines())) < 2000


def test_connections_as_json_are_those_of_the_table() -> None:
    rows = [{**CONNECTION, "session": number} for number in range(10)]
    output, _ = listed(
        "connections", "--limit", "2", "--json", pages={"/connections": {"open": 10, "connections": rows}}
    )
    found = json.loads(output)
    assert (found["open"], len(found["connections"])) == (10, 2)


async def test_connections_of_a_sidecar_are_chosen_by_what_they_use() -> None:
    old = oracle.request_frame(oracle.request(ApiKey.METADATA, 12), 1)
    async with (
        FakeBroker(1) as broker,
        pages(broker) as (server, port),
        connected(port_of(server)) as one,
        connected(port_of(server)) as other,
    ):
        await one.ask(request(ApiKey.HEARTBEAT, 3, 1, client_id=b"new"))
        await other.ask(old)
        everything = await command(port, "connections")
        assert "2 shown of 2 open" in everything.output
        assert "0 shown of 2" in (await command(port, "connections", "--old")).output
        assert "0 shown of 2" in (await command(port, "connections", "--paused")).output
        assert "1 shown of 2" in (await command(port, "connections", "--client-id", "new")).output
        assert "0 shown of 2" in (await command(port, "connections", "--principal", "User:alice")).output


REJECTION: dict[str, Any] = {
    "id": "x3k9qd-1f", "timestamp": "2026-11-27T08:00:00.000Z", "topic": "orders", "partition": 3, "mode": "enforce",
    "outcome": "rejected", "policy": "json", "reason": "not_json", "message": "requires JSON", "index": 1,
    "rejected_records": 2, "session": 6, "client_id": "shop", "principal": "User:alice", "client": "10.0.0.7",
    "client_software": None, "dead_letter_topic": None,
}  # fmt: skip
DENIAL: dict[str, Any] = {
    **REJECTION, "id": "d-1", "topic": None, "partition": None, "outcome": "denied", "policy": "(rules)",
    "reason": "denied", "rejected_records": 0,
    "denial": {
        "principal": "User:alice", "operation": "read", "resource_type": "group", "resource": "g", "api": "JoinGroup",
        "times": 7, "since": "2026-11-27T07:00:00.000Z",
    },
}  # fmt: skip


def test_a_rejection_is_a_line_and_its_id_leads_to_explain() -> None:
    output, query = listed("rejections", pages={"/rejections": {"rejections": [REJECTION, DENIAL]}})
    lines = output.splitlines()
    assert query == {}
    assert lines[1].split()[0] == "x3k9qd-1f"
    assert "orders-3, 2 records" in lines[1]
    assert "read of group g, 7 times" in lines[2]
    assert lines[-1] == "All that is known of one: kafka-sidecar explain x3k9qd-1f"


def test_filters_of_rejections_are_asked_of_the_sidecar_which_stores_more_than_it_lists() -> None:
    words = ("--topic", "orders", "--policy", "json", "--reason", "not_json", "--client-id", "shop")
    output, query = listed("rejections", *words, pages={"/rejections": {"rejections": []}})
    assert output == "nothing was rejected or denied with these values\n"
    assert query == {"topic": ["orders"], "policy": ["json"], "reason": ["not_json"], "client_id": ["shop"]}


def test_hostile_names_of_rejections_are_text_in_one_line() -> None:
    rows = [{**REJECTION, "client_id": HOSTILE, "message": HOSTILE, "topic": HOSTILE}]
    output, _ = listed("rejections", pages={"/rejections": {"rejections": rows}})
    assert not {"\x1b", "\x07", "‮"} & set(output)
    assert len(output.splitlines()) == 4


async def test_rejections_of_a_sidecar_are_chosen_by_their_values() -> None:
    async with guarded() as (server, port):
        first = await rejected(server, f"bad {SECRET}")
        await produce(server, "bad", partition=4)
        everything = (await command(port, "rejections")).output
        assert first in everything
        assert SECRET not in everything
        assert everything.index("orders-4") < everything.index("orders-3")
        for words in (("--topic", "orders"), ("--policy", "stub"), ("--client", "127.0.0.1"), ("--client-id", "app")):
            assert first in (await command(port, "rejections", *words)).output, words
        for words in (("--topic", "other"), ("--reason", "x"), ("--principal", "User:alice")):
            assert first not in (await command(port, "rejections", *words)).output, words
        limited = json.loads((await command(port, "rejections", "--limit", "1", "--json")).output)
        assert [one["partition"] for one in limited["rejections"]] == [4]


def test_a_topic_has_a_line_for_what_each_feature_says_of_it() -> None:
    said = {
        "rate_limits": {"rate limits": ["shop", "all"]},
        "dead_letters": {"dead letters": "orders.dlq", "of shadow": False},
        "auditing": {"audited": True},
        "producer_habits": {"habits": ["entry 1: acks"]},
    }
    topic = {"topic": "orders", "validation": {"why": "off"}, "interceptors": [], "features": said}
    output, _ = listed("topics", "orders", pages={"/topics/orders": topic})
    assert output.splitlines() == [
        "orders: not validated: off",
        "  rate limits: shop; all",
        "  dead letters: orders.dlq",
        "  audited: yes",
    ]
