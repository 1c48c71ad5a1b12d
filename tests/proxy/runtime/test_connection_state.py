"""What is known of a connection, in log lines and at the admin port."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from support.dialogue import request, response
from support.fake_broker import FakeBroker, Request
from support.in_process import connected, port_of, serving, until

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.proxy.relay.exchange import Closing
from kafka_sidecar.proxy.runtime.connection_state import (
    closed_keys,
    describe_open,
    describe_request,
    end_keys,
    end_kind,
    recorded,
)

ASKED = request(ApiKey.HEARTBEAT, 3, 7)


async def test_the_end_of_a_connection_says_who_how_much_and_why() -> None:
    async with FakeBroker(1) as broker, serving(broker) as server, connected(port_of(server)) as client:
        answered = await client.ask(ASKED)
        (connection,) = server.connections
        keys = end_keys(connection, closed_keys(connection, Closing("drain", "the sidecar stops")))
        assert {name: value for name, value in keys.items() if name not in ("duration_s", "client")} == {
            "session": 1, "listener": "bootstrap", "client_id": "app", "client_software": None, "principal": None,
            "requests": 1, "responses": 1, "in_flight": 0, "bytes_from_client": len(ASKED),
            "bytes_from_broker": len(answered), "cause": "drain", "reason": None, "detail": "the sidecar stops",
            "suppressed": None, "last_requests": None,
        }  # fmt: skip
        assert keys["client"] == connection.peer


async def test_an_open_connection_is_shown_with_its_broker_and_its_last_requests() -> None:
    async with FakeBroker(1) as broker, serving(broker) as server, connected(port_of(server)) as client:
        answered = await client.ask(ASKED)
        (connection,) = server.connections
        state = describe_open(connection)
        assert (state["broker"], state["client_paused"], state["broker_paused"]) == (broker.address, [], [])
        (line,) = map(describe_request, recorded(connection))
        assert line.pop("timestamp").startswith("20")
        assert line.pop("response_after_s") > 0
        assert line == {
            "api": "Heartbeat", "version": 3, "correlation_id": 7, "request_bytes": len(ASKED), "response": "broker",
            "response_bytes": len(answered), "error_code": line["error_code"], "throttle_ms": line["throttle_ms"],
        }  # fmt: skip


async def test_a_connection_without_a_broker_says_what_it_waits_for() -> None:
    settings: dict[str, Any] = {"connections": {"broker_wait": "10s"}}
    async with serving("127.0.0.1:1", **settings) as server, connected(port_of(server)) as client:
        client.send(ASKED * 20_000)  # more than is read before a broker is connected
        await until(lambda: any(one.client.reasons for one in server.connections))
        (connection,) = server.connections
        state = describe_open(connection)
        assert (state["broker"], state["client_paused"]) == (None, ["no broker yet"])


async def wrong(broker: FakeBroker, asked: Request) -> bytes:
    """A response to another request."""
    return response(asked.correlation_id + 1, bytes(6))


async def test_the_log_line_of_an_error_has_the_last_requests(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with FakeBroker(1) as broker, serving(broker) as server:
        broker.answers[ApiKey.HEARTBEAT] = wrong
        async with connected(port_of(server)) as client:
            await client.ask(request(ApiKey.METADATA, 1, 6, bytes(4)))
            client.send(ASKED)
            await client.rest()
        await until(lambda: "connection ended" in caplog.messages)
    (line,) = [vars(record) for record in caplog.records if record.message == "connection ended"]
    assert line["cause"] == "unreadable_response"
    answered, awaited = line["last_requests"]
    assert answered.startswith("Metadata v1 #6, ")
    assert awaited.startswith(f"Heartbeat v3 #7, {len(ASKED)} bytes, ")
    assert awaited.endswith(": no response")


async def test_ends_for_two_reasons_of_one_cause_are_two_kinds_of_lines() -> None:
    async with FakeBroker(1) as broker, serving(broker) as server, connected(port_of(server)) as client:
        await client.ask(ASKED)
        (connection,) = server.connections

        def kind(*closing: str) -> tuple[str, ...]:
            return end_kind(connection, Closing(*closing))

        assert kind("tls_handshake_failed", "same", "not_tls") != kind("tls_handshake_failed", "same", "expired")
        assert kind("not_kafka", "not Kafka: an SSH client") != kind("not_kafka", "not Kafka: an HTTP request")
        limit = "connections of {} are open (connections.max_connections_per_ip)"
        assert len({kind("too_many_connections", limit.format(ip)) for ip in ("10.0.0.1", "10.0.0.27", "fe80::1")}) == 1
        assert len({kind("x", f"{number} of topic {'t' * number}") for number in range(50, 99)}) == 1
