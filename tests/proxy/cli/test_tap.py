"""The command `tap` against a sidecar in the same process."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from support.admin import command, pages
from support.dialogue import request
from support.fake_broker import FakeBroker
from support.in_process import connected, port_of
from support.rejecting import guarded, send
from typer.testing import Result

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.proxy.cli.tap import _PRINTED, _reasons

WHO = {"client_id": "app", "principal": None, "client": "127.0.0.1", "session": 7}
RECORD: dict[str, Any] = {
    "kind": "record", "at_ms": 0, "direction": "produced", "topic": "orders", "partition": 3, "offset": 9,
    "error_code": 0, "key_bytes": 3, "key_hash": "ab12", "value_bytes": 10, "headers": [], "compression": "none",
    "transactional": False, **WHO,
}  # fmt: skip


def printed(line: dict[str, Any]) -> str:
    return _PRINTED[line["kind"]](line)[13:]  # without the time


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "orders-3@9                       key #ab12 (3 B) value 10 B []"),
        ({"offset": None, "error_code": 87, "compression": "zstd"}, "value 10 B zstd INVALID_RECORD []"),
        ({"key_bytes": -1, "value_bytes": -1, "transactional": True}, "key null value null transactional []"),
        ({"key": "k", "value": 'a"b', "value_is_cut": True}, r'key "k" (3 B) value "a\"b"... (10 B) []'),
        (
            {"headers": [{"name": "i", "value_bytes": 2, "value": "xy"}], "headers_left": 4},
            '[i="xy" and 4 more]',
        ),
        ({"topic": None, "topic_id": "00ff"}, "id 00ff-3@9"),
        ({"unreadable": "a wrong length"}, "not readable: a wrong length"),
        ({"principal": "User:a"}, "app User:a 127.0.0.1 #7"),
    ],
)  # fmt: skip
def test_a_record_is_one_line_with_what_is_known_of_it(changes: dict[str, Any], text: str) -> None:
    assert text in printed({**RECORD, **changes})


def test_a_request_says_whose_time_it_was() -> None:
    line = {
        "kind": "request", "at_ms": 0, "api": "Produce", "version": 9, "topics": ["a"], "topics_left": 3,
        "request_bytes": 10, "response_bytes": 20, "answered_by": "broker", "latency_ms": 3.5, "broker_ms": 3.0,
        "sidecar_ms": 0.5, "error_code": 29, **WHO,
    }  # fmt: skip
    assert "a and 3 more" in printed(line)
    assert "3.50 ms (broker 3.00 ms, sidecar 0.50 ms) TOPIC_AUTHORIZATION_FAILED" in printed(line)
    none = {**line, "latency_ms": None, "response_bytes": None, "answered_by": "none", "error_code": None}
    assert "10 B > - B" in printed(none)
    assert "no response expected" in printed(none)


def test_what_was_lost_has_its_reasons() -> None:
    assert _reasons({"rate": 1200, "slow_reader": 34}) == "1,200 over the rate, 34 not read in time"


async def during(port: int, *words: str, do: Any) -> Result:
    """The command, while something happens again and again."""
    running = asyncio.ensure_future(command(port, "tap", *words))
    while not running.done():
        await do()
        await asyncio.sleep(0.02)
    return await running


async def test_lines_are_aligned_escaped_and_as_many_as_wanted() -> None:
    async with FakeBroker(1) as broker, pages(broker) as (server, port), connected(port_of(server)) as client:

        async def ask() -> None:
            await client.ask(request(ApiKey.API_VERSIONS, 2, 5, client_id=b"app\x1b[2J\n"))

        result = await during(port, "requests", "--count", "2", do=ask)
    assert (result.exit_code, len(result.stdout.splitlines())) == (0, 2)
    assert all("ApiVersions v2" in line and "app\\x1b[2J\\n" in line for line in result.stdout.splitlines())
    assert result.stderr.startswith("tapping requests, at most 100 lines a second")


async def test_json_is_one_object_for_each_line() -> None:
    async with guarded() as (server, port):
        result = await during(port, "rejections", "--count", "1", "--json", do=lambda: send(server, "bad"))
    (line,) = map(json.loads, result.stdout.splitlines())
    assert (line["kind"], line["topic"]) == ("rejection", "orders")


async def test_a_rejection_and_a_connection_are_lines_too() -> None:
    async with guarded() as (server, port):
        rejections = await during(port, "rejections", "--count", "1", do=lambda: send(server, "bad"))
        connections = await during(port, "connections", "--count", "2", do=lambda: send(server, "good"))
    assert "rejected orders-3" in rejections.stdout
    assert "explain " in rejections.stdout
    assert "opened bootstrap" in connections.stdout
    assert "client_closed: " in connections.stdout or "opened" in connections.stdout


async def test_what_is_refused_is_one_line_and_ends_with_one() -> None:
    async with FakeBroker(1) as broker, pages(broker) as (_, port):
        result = await command(port, "tap", "records", "--show-values")
    assert result.exit_code == 1
    assert result.stderr == (
        "kafka-sidecar: values are not shown here: set tap.allow_values: true in the configuration of the sidecar\n"
    )


async def test_a_filter_that_does_not_exist_is_a_wrong_flag() -> None:
    result = await command(1, "tap", "requests", "--partition", "3")
    assert result.exit_code == 2


async def test_seconds_end_it_well() -> None:
    async with FakeBroker(1) as broker, pages(broker) as (_, port):
        result = await command(port, "tap", "connections", "--seconds", "0.05")
    assert (result.exit_code, result.stdout) == (0, "")
