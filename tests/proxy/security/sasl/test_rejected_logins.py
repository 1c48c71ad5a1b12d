"""Clients that log in although the sidecar does it for them."""

from __future__ import annotations

from typing import Any

import pytest
from support import oracle
from support.fake_broker import FakeBroker
from support.in_process import connected, port_of, serving
from support.secured_broker import ILLEGAL_STATE, secured

from kafka_sidecar.codec.apis import ApiKey


async def test_a_client_that_logs_in_itself_is_answered_as_at_a_plaintext_listener(
    brokers: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    handshake = oracle.request_frame(oracle.request(ApiKey.SASL_HANDSHAKE, 1, mechanism="PLAIN"), 5)
    token = oracle.request_frame(oracle.request(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=b"\0mine\0secret"), 6)
    async with (
        FakeBroker(1) as broker,
        serving(secured(broker), brokers=brokers) as server,
        connected(port_of(server)) as client,
    ):
        _, offered = oracle.read_response(ApiKey.SASL_HANDSHAKE, 1, await client.ask(handshake))
        _, rejected = oracle.read_response(ApiKey.SASL_AUTHENTICATE, 2, await client.ask(token))
    assert (offered.error_code, rejected.error_code) == (ILLEGAL_STATE, ILLEGAL_STATE)
    assert "set their security.protocol to PLAINTEXT" in rejected.error_message
    assert [record.message for record in caplog.records].count("client logs in") == 1
