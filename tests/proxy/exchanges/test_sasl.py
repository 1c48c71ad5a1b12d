"""The name of a client, from the moment the broker has accepted it. kio is the reference."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import oracle
from support.client import FakeClient
from support.dialogue import Dialogue
from support.driven import Driven, driven

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.proxy.exchanges.messages import MessageExchanges
from kafka_sidecar.proxy.exchanges.sasl import Principals, find_name

FAILED = 58  # SASL_AUTHENTICATION_FAILED
PLAIN = b"\0alice\0secret"
FIRST, FINAL = (
    b"n,,n=alice,r=fyko+d2lbbFgONRv9qkxdawL",
    b"c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=",
)
OAUTH = b"n,a=alice,\x01auth=Bearer " + base64.b64encode(b"n=mallory,n=mallory") + b"\x01\x01"

TOKENS: list[tuple[bytes, str | None]] = [
    (PLAIN, "alice"),
    (b"alice\0alice\0secret", "alice"),
    ("\0jürgen\0gehe=im,n=x".encode(), "jürgen"),
    (b"\0n,,n=bob\0x", "n,,n=bob"),
    (FIRST, "alice"),
    (b"n,a=admin,n=alice,r=abc", "alice"),
    (b"y,,n=alice,r=abc", "alice"),
    (b"n,,n=a=2Cb=3Dc,r=abc", "a,b=c"),
    (b"n,,n==3D2C,r=abc", "=2C"),
    (FINAL, None),
    (OAUTH, None),
    (b"n,,n=tokenid,r=abc,tokenauth=true", None),  # the id of a delegation token: the name is its owner's
    (b"", None),
    (b"\0\0secret", None),
    (b"\0alice\0", None),
    (b"\0alice", None),
    (b"\0\xff\0x", None),
    (b"n,,n=\xff,r=abc", None),
    (b"n,,m=ext,n=alice,r=abc", None),
    (b"`\x82\x02\x00\x06\x09*\x86H\x86\xf7\x12\x01\x02\x02\0\0\0", None),  # GSSAPI
]


@pytest.mark.parametrize(("token", "name"), TOKENS)
def test_a_name_is_found_in_tokens_of_plain_and_scram_only(token: bytes, name: str | None) -> None:
    assert find_name(token) == name


@given(st.binary(max_size=40))
def test_noise_is_a_name_or_none(token: bytes) -> None:
    find_name(token)


def authenticate_request(version: int, token: bytes, correlation_id: int = 7) -> bytes:
    return oracle.request_frame(oracle.request(ApiKey.SASL_AUTHENTICATE, version, auth_bytes=token), correlation_id)


def authenticate_response(version: int, error_code: int = 0, correlation_id: int = 7) -> bytes:
    entity = oracle.response(ApiKey.SASL_AUTHENTICATE, version, error_code=error_code, auth_bytes=b"r=1,s=2,i=4096")
    return oracle.response_frame(entity, correlation_id)


def begin(version: int, client: FakeClient) -> Driven:
    exchange = driven(Principals(), version=version, client=client)
    assert exchange is not None
    return exchange


@pytest.mark.parametrize("version", range(3))
@pytest.mark.parametrize("token", [PLAIN, FIRST])
def test_a_client_has_its_name_once_the_broker_has_accepted_it(version: int, token: bytes) -> None:
    client = FakeClient()
    exchange, frame, response = (
        begin(version, client),
        authenticate_request(version, token),
        authenticate_response(version),
    )
    assert exchange.request(frame) is frame
    assert exchange.wants_response
    assert client.principal is None
    assert exchange.response(response) is response
    assert client.principal == "User:alice"


@pytest.mark.parametrize("version", range(3))
def test_a_client_that_the_broker_rejects_has_no_name(version: int) -> None:
    client = FakeClient()
    exchange = begin(version, client)
    exchange.request(authenticate_request(version, PLAIN))
    response = authenticate_response(version, FAILED)
    assert exchange.response(response) is response
    assert client.principal is None


@pytest.mark.parametrize("token", [OAUTH, FINAL])
def test_the_response_to_a_token_without_a_name_is_not_read(token: bytes) -> None:
    client = FakeClient(principal="User:alice")
    exchange, frame = begin(2, client), authenticate_request(2, token)
    assert exchange.request(frame) is frame
    assert not exchange.wants_response
    assert client.principal == "User:alice"


def test_a_request_that_cannot_be_read_raises() -> None:
    with pytest.raises(CodecError):
        begin(2, FakeClient()).request(authenticate_request(2, PLAIN)[:-3])


def test_a_session_knows_its_client_for_all_later_requests() -> None:
    exchanges = MessageExchanges([Principals()])
    talk = Dialogue(
        exchange=lambda key, version: exchanges.exchange(version) if key == ApiKey.SASL_AUTHENTICATE else None
    )
    talk.client(authenticate_request(2, FIRST, 1) + authenticate_request(2, FINAL, 2))
    assert talk.to_broker == authenticate_request(2, FIRST, 1) + authenticate_request(2, FINAL, 2)
    talk.broker(authenticate_response(2, 0, 1) + authenticate_response(2, 0, 2))
    assert talk.session.principal == "User:alice"
    assert talk.to_client == authenticate_response(2, 0, 1) + authenticate_response(2, 0, 2)
    talk.client(authenticate_request(2, b"\0bob\0x", 3)).broker(authenticate_response(2, FAILED, 3))
    assert talk.session.principal == "User:alice"
    talk.client(authenticate_request(2, b"\0bob\0x", 4)).broker(authenticate_response(2, 0, 4))
    assert talk.session.principal == "User:bob"
