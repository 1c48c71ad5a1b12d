"""Rejected batches at the admin port, by the id in the client's error and in the log."""

from __future__ import annotations

import json
import time
from datetime import datetime
from typing import Any

import pytest
from support import oracle
from support.admin import command, get, get_json, pages
from support.fake_broker import FakeBroker
from support.in_process import connected, port_of
from support.produce_requests import produce_request
from support.rejecting import EXPLAIN, SECRET, guarded, produce, rejected, send

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.proxy.features.validation.rejections import MAX_RECENT
from kafka_sidecar.proxy.server.server import Server


async def test_the_last_rejected_batches_are_listed_newest_first_without_payloads() -> None:
    async with guarded() as (server, port):
        await produce(server, f"bad {SECRET}", partition=3)
        await produce(server, "good", f"bad {SECRET}", "bad", partition=4)
        status, _, body = await get(port, "/rejections")
        newest, oldest = json.loads(body)["rejections"]
        assert (status, newest["partition"], oldest["partition"]) == (200, 4, 3)
        assert newest["id"].split("-")[0] == oldest["id"].split("-")[0]
        assert abs(datetime.fromisoformat(newest.pop("timestamp")).timestamp() - time.time()) < 60
        assert newest == {
            "id": newest["id"], "topic": "orders", "partition": 4, "mode": "enforce", "policy": "stub", "reason": "bad",
            "index": 1, "message": "orders takes no bad", "rejected_records": 2, "session": 2, "client_id": "app",
            "dead_letter_topic": None, "outcome": "rejected", "client": "127.0.0.1", "client_software": None,
            "principal": None,
        }  # fmt: skip
        assert SECRET.encode() not in body


async def test_without_validation_no_rejected_batches_are_listed_and_none_is_known() -> None:
    async with pages("127.0.0.1:1") as (_, port):
        assert await get_json(port, "/rejections") == {"rejections": []}
        assert b"validates nothing and denies nothing" in (await get(port, "/rejections/a-1"))[2]


async def test_a_rejection_is_explained_by_the_id_that_its_client_got() -> None:
    async with guarded() as (server, port):
        found = await get_json(port, f"/rejections/{await rejected(server, 'good', f'bad {SECRET}', 'bad')}")
    assert SECRET not in json.dumps(found)
    assert (found["topic"], found["partition"], found["outcome"]) == ("orders", 3, "rejected")
    assert (found["policy"], found["reason"], found["message"]) == ("stub", "bad", "orders takes no bad")
    assert [(one["index"], one["policy"], one["reason"]) for one in found["records"]] == [
        (1, "stub", "bad"),
        (2, "stub", "bad"),
    ]
    assert found["client"] == {
        "session": 1, "client": "127.0.0.1", "client_id": "app", "client_software": None, "principal": None,
        "correlation_id": 7,
    }  # fmt: skip
    assert (found["batch"]["records"], found["batch"]["compression"]) == (3, "none")
    configuration = found["configuration"]
    assert (configuration["source"], configuration["mode"]) == ("topics: orders", "enforce")
    (policy,) = configuration["policies"]
    assert (policy["class"], policy["on_error"], policy["settings"]) == (
        "support.policies:Stub", "closed", {"refused": "bad"},
    )  # fmt: skip
    assert "mode shadow" in found["remedy"]


async def test_each_record_error_has_the_id_because_java_shows_these_alone() -> None:
    async with guarded() as (server, _):
        partition = await produce(server, "bad", "good", "bad")
    ids = {EXPLAIN.findall(one.batch_index_error_message)[0] for one in partition.record_errors}
    assert ids == set(EXPLAIN.findall(partition.error_message))


async def test_the_log_line_has_the_id_of_the_clients_error(caplog: pytest.LogCaptureFixture) -> None:
    async with guarded() as (server, _):
        found = await rejected(server, "bad")
    assert [vars(one)["rejection"] for one in caplog.records if one.message == "records rejected"] == [found]


@pytest.mark.parametrize(
    ("values", "settings", "reason", "remedy"),
    [
        (["bug"], {}, "policy_failed", "on_error: open"),
        (["bad"], {"topics": [{"name": "orders", "policy": "stub", "mode": "shadow"}]}, "bad", "policy test"),
    ],
)
async def test_what_to_do_depends_on_the_reason(
    values: list[str], settings: dict[str, Any], reason: str, remedy: str
) -> None:
    async with guarded(**settings) as (server, port):
        await send(server, *values)
        (listed,) = (await get_json(port, "/rejections"))["rejections"]
        found = await get_json(port, f"/rejections/{listed['id']}")
    assert (found["reason"], remedy in found["remedy"]) == (reason, True)
    assert found["outcome"] == ("allowed" if found["mode"] == "shadow" else "rejected")


async def test_data_that_is_not_a_batch_is_explained_without_a_header() -> None:
    async with guarded() as (server, port), connected(port_of(server)) as client:
        await client.ask(produce_request(9, {"orders": {3: b"no batch at all"}}))
        (listed,) = (await get_json(port, "/rejections"))["rejections"]
        found = await get_json(port, f"/rejections/{listed['id']}")
        assert (found["policy"], found["reason"], found["batch"]) == ("(structure)", "unreadable", None)
        assert "client's library" in found["remedy"]


async def test_an_id_of_another_process_and_one_that_is_too_old_are_distinguished() -> None:
    async with guarded() as (server, port):
        first = await rejected(server, "bad")
        assert server.features.validator is not None
        recent = server.features.validator.stats.recent
        batch = recent.find(first)
        assert batch is not None
        for _ in range(MAX_RECENT):
            recent.add(batch)
        assert [one.id for one in recent.newest(2)] == [first] * 2
        status, _, body = await get(port, f"/rejections/{recent.prefix}-fff")
        assert (status, b"only the last 1000" in body) == (404, True)
        status, _, body = await get(port, "/rejections/zzzzzz-1")
        assert (status, b"before a restart" in body) == (404, True)


DENY_ALL = {"authorization": {"default": "deny", "rules": [{"principals": ["User:alice"], "topics": ["orders"]}]}}


async def deny_metadata(server: Server, client_id: str | None = None) -> None:
    request = oracle.request(ApiKey.METADATA, 9, topics=[{"name": "secret-1"}])
    async with connected(port_of(server)) as client:
        await client.ask(oracle.request_frame(request, 5, client_id=client_id))


async def test_what_rules_deny_is_listed_and_explained_as_a_rejected_batch_is() -> None:
    async with FakeBroker(1) as broker, pages(broker, **DENY_ALL) as (server, port):
        await deny_metadata(server)
        await deny_metadata(server)
        (listed,) = (await get_json(port, "/rejections"))["rejections"]
        found = await get_json(port, f"/rejections/{listed['id']}")
        metrics = (await get(port, "/metrics"))[2].decode()
        printed = await command(port, "explain", listed["id"])
        unknown = (await get(port, f"/rejections/{listed['id'][:7]}ffff"))[2]
    assert (listed["topic"], listed["reason"], listed["policy"]) == ("secret-1", "denied", "(rules)")
    denial = listed["denial"]
    assert {name: denial[name] for name in ("principal", "operation", "resource_type", "resource", "api", "times")} == {
        "principal": "User:ANONYMOUS", "operation": "describe", "resource_type": "topic", "resource": "secret-1",
        "api": "Metadata", "times": 2,
    }  # fmt: skip
    assert (found["outcome"], found["client"]["client"]) == ("denied", "127.0.0.1")
    assert 'denials_total{api_key="Metadata",operation="describe",resource_type="topic"} 2.0' in metrics
    assert printed.exit_code == 0, printed.output
    assert "User:ANONYMOUS, describe of topic secret-1 (Metadata, 2 times" in printed.output
    assert "add a rule to authorization.rules" in printed.output
    assert b"this one is older" in unknown


async def test_the_command_prints_no_control_characters_of_what_a_client_calls_itself() -> None:
    async with FakeBroker(1) as broker, pages(broker, **DENY_ALL) as (server, port):
        await deny_metadata(server, "\x1b]0;title\x07\x1b[2J\nforged: line\r")
        (listed,) = (await get_json(port, "/rejections"))["rejections"]
        printed = await command(port, "explain", listed["id"])
    assert printed.exit_code == 0, printed.output
    assert not [char for char in printed.output if char != "\n" and not char.isprintable()]
    assert not any(line.startswith("forged") for line in printed.output.splitlines())
