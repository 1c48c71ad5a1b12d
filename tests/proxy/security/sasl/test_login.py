"""A connection during its login: frames in pieces, and its end."""

from __future__ import annotations

import asyncio

import pytest
from support import oracle
from support.fake_broker import FakeBroker, hang_up
from support.secured_broker import PASSWORD, secured

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.proxy.security.sasl.conversation import LoginError, Tokens, plain
from kafka_sidecar.proxy.security.sasl.login import LoginProtocol, perform_login


class User:
    mechanism, remedy = "PLAIN", ""

    async def tokens(self) -> Tokens:
        return plain("app", PASSWORD)


async def opened(broker: FakeBroker) -> LoginProtocol:
    _, protocol = await asyncio.get_running_loop().create_connection(LoginProtocol, broker.host, broker.port)
    return protocol


async def test_a_login_returns_the_lifetime_of_the_session() -> None:
    async with FakeBroker(1) as broker:
        secured(broker, lifetime_s=7)
        login = await opened(broker)
        assert await perform_login(User(), login.request) == 7
        login.abort()


async def test_a_connection_that_is_closed_during_the_login_is_not_a_rejection() -> None:
    async with FakeBroker(1) as broker:
        secured(broker).answers[ApiKey.SASL_AUTHENTICATE] = hang_up(b"\0\0")
        with pytest.raises(ConnectionResetError, match="does it expect TLS at this port"):
            await perform_login(User(), (await opened(broker)).request)


async def test_an_answer_that_is_not_kafka_is_an_error() -> None:
    async with FakeBroker(1) as broker:
        broker.answers[ApiKey.SASL_HANDSHAKE] = hang_up(b"HTTP/1.1 400 Bad Request")
        with pytest.raises(LoginError, match="does not speak Kafka"):
            await perform_login(User(), (await opened(broker)).request)


async def test_a_response_that_comes_byte_by_byte_is_one_frame() -> None:
    protocol = LoginProtocol()
    protocol.connection_made(_Transport())
    asked = asyncio.ensure_future(protocol.request(b"asked"))
    await asyncio.sleep(0)
    frame = oracle.framed(b"response")
    for at in range(len(frame)):
        protocol.data_received(frame[at : at + 1])
    assert await asked == frame
    protocol.data_received(b"\xff\xff\xff\xff")
    with pytest.raises(CodecError):
        await protocol.request(b"again")


async def test_a_connection_that_has_ended_is_not_handed_over() -> None:
    protocol = LoginProtocol()
    protocol.connection_made(_Transport())
    protocol.connection_lost(None)
    with pytest.raises(LoginError, match="after the login"):
        protocol.hand_over(asyncio.Protocol())


class _Transport(asyncio.Transport):
    def write(self, data: object) -> None:
        return
