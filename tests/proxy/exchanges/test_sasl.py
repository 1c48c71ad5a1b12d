"""The name of a client, from the moment the broker has accepted it. kio is the reference."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import oracle
from support.dialogue import Dialogue, request

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.proxy.exchanges.messages import UNKNOWN
from kafka_sidecar.proxy.exchanges.sasl import MAX_TOKEN_BYTES, find_name, login_exchange
from kafka_sidecar.proxy.features.compose import LOGIN_APIS

FAILED, UNSUPPORTED = 58, 33  # SASL_AUTHENTICATION_FAILED, UNSUPPORTED_SASL_MECHANISM
PLAIN = b"\0alice\0secret"
FIRST, FINAL = (
    b"n,,n=alice,r=fyko+d2lbbFgONRv9qkxdawL",
    b"c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=",
)
OAUTH = b"n,a=alice,\x01auth=Bearer " + base64.b64encode(b"n=mallory,n=mallory") + b"\x01\x01"
GSSAPI = b"`\x82\x02\x00\x06\x09*\x86H\x86\xf7\x12\x01\x02\x02\0alice\0me"
SHA_256, SHA_512 = "SCRAM-SHA-256", "SCRAM-SHA-512"

TOKENS: list[tuple[str, bytes, str | None]] = [
    ("PLAIN", PLAIN, "alice"),
    ("PLAIN", b"alice\0alice\0secret", "alice"),
    ("PLAIN", "\0jürgen\0gehe=im,n=x".encode(), "jürgen"),
    ("PLAIN", b"\0n,,n=bob\0x", "n,,n=bob"),
    ("PLAIN", FIRST, None),
    ("PLAIN", b"\0\0secret", None),
    ("PLAIN", b"\0alice\0", None),
    ("PLAIN", b"\0alice", None),
    ("PLAIN", b"\0alice\0secret\0more", None),
    ("PLAIN", b"\0\xff\0x", None),
    ("PLAIN", b"\0alice\0" + b"x" * MAX_TOKEN_BYTES, None),
    (SHA_256, FIRST, "alice"),
    (SHA_512, FIRST, "alice"),
    (SHA_256, b"n,a=alice,n=alice,r=abc", "alice"),
    (SHA_256, b"n,,m=any,n=alice,r=abc", "alice"),  # reserved extensions, which Kafka reads over
    (SHA_256, b"n,a=alice,m=x=y,n=alice,r=abc,x=y", "alice"),
    (SHA_256, b"n,,n=a=2Cb=3Dc,r=abc", "a,b=c"),
    (SHA_256, b"n,,n==3D2C,r=abc", "=2C"),
    (SHA_256, b"n,,n=a\x01 b\x7f,r=abc", "a\x01 b\x7f"),
    (SHA_256, b"n,,n=alice,r=abc,tokenauth=false", "alice"),
    (SHA_256, b"n,,n=alice,r=abc,x=tokenauth=true", "alice"),
    (SHA_256, b"n,,n=tokenid,r=abc,tokenauth=true", None),  # the id of a delegation token: the name is its owner's
    (SHA_256, b"n,,n=tokenid,r=abc,x=y,tokenauth=TRUE", None),
    (SHA_256, b"n,,m=x,n=tokenid,r=abc,tokenauth=tRue,x=y", None),
    (SHA_256, b"y,,n=alice,r=abc", None),  # no broker accepts these
    (SHA_256, b"n,,n=al=ice,r=abc", None),
    (SHA_256, b"n,,n=alice", None),
    (SHA_256, b"n,,n=\xff,r=abc", None),
    (SHA_256, FINAL, None),
    (SHA_256, OAUTH, None),
    (SHA_256, PLAIN, None),
    (SHA_256, b"", None),
    ("OAUTHBEARER", OAUTH, None),
    ("OAUTHBEARER", FIRST, None),
    ("GSSAPI", GSSAPI, None),
]


@pytest.mark.parametrize(("mechanism", "token", "name"), TOKENS)
def test_a_name_is_found_in_tokens_of_plain_and_scram_only(mechanism: str, token: bytes, name: str | None) -> None:
    assert find_name(mechanism, token) == name


@given(st.sampled_from(["PLAIN", SHA_256, "GSSAPI"]), st.binary(max_size=40))
def test_noise_is_a_name_or_none(mechanism: str, token: bytes) -> None:
    find_name(mechanism, token)


def handshake(mechanism: str, correlation_id: int = 1) -> bytes:
    return oracle.request_frame(oracle.request(ApiKey.SASL_HANDSHAKE, 1, mechanism=mechanism), correlation_id)


def shaken(correlation_id: int = 1, error_code: int = 0) -> bytes:
    entity = oracle.response(ApiKey.SASL_HANDSHAKE, 1, error_code=error_code, mechanisms=["PLAIN", SHA_256])
    return oracle.response_frame(entity, correlation_id)


def token_of(token: bytes, correlation_id: int = 2, version: int = 2) -> bytes:
    return oracle.request_frame(oracle.request(ApiKey.SASL_AUTHENTICATE, version, auth_bytes=token), correlation_id)


def answered(correlation_id: int = 2, error_code: int = 0, version: int = 2) -> bytes:
    entity = oracle.response(ApiKey.SASL_AUTHENTICATE, version, error_code=error_code, auth_bytes=b"r=1,s=2,i=4096")
    return oracle.response_frame(entity, correlation_id)


def talk_after(mechanism: str | None) -> Dialogue:
    """A client that has begun a login; its handshake, if it had one, is forgotten."""
    talk = Dialogue(exchange=lambda key, version: login_exchange(key, version) if key in LOGIN_APIS else None)
    if mechanism is not None:
        frame, response = handshake(mechanism), shaken()
        talk.client(frame).broker(response)
        assert (talk.to_broker, talk.to_client) == (frame, response)
        talk.to_broker = talk.to_client = b""
    return talk


@pytest.mark.parametrize("version", range(3))
def test_a_client_has_its_name_once_the_broker_has_accepted_it(version: int) -> None:
    talk = talk_after("PLAIN")
    talk.client(token_of(PLAIN, 2, version))
    assert talk.to_broker == token_of(PLAIN, 2, version)
    assert talk.session.principal is None
    talk.broker(answered(2, 0, version))
    assert talk.to_client == answered(2, 0, version)
    assert talk.session.principal == "User:alice"


@pytest.mark.parametrize("version", range(3))
def test_a_client_that_the_broker_rejects_has_no_name(version: int) -> None:
    talk = talk_after("PLAIN")
    talk.client(token_of(PLAIN, 2, version)).broker(answered(2, FAILED, version))
    assert talk.to_client == answered(2, FAILED, version)
    assert talk.session.principal is None


@pytest.mark.parametrize("first", [FIRST, b"n,,m=any,n=alice,r=abc"])
def test_with_scram_the_name_is_known_when_the_broker_has_seen_the_proof(first: bytes) -> None:
    talk = talk_after(SHA_256)
    talk.client(token_of(first)).broker(answered())
    assert talk.session.principal is None
    talk.client(token_of(FINAL, 3)).broker(answered(3))
    assert talk.session.principal == "User:alice"
    assert talk.to_broker == token_of(first) + token_of(FINAL, 3)
    assert talk.to_client == answered() + answered(3)


def test_who_knows_a_name_and_no_password_does_not_get_the_name() -> None:
    talk = talk_after(SHA_256)
    talk.client(token_of(FIRST)).broker(answered())
    talk.client(token_of(FINAL, 3)).broker(answered(3, FAILED))
    assert talk.session.principal is None


UNKNOWN_TOKENS = [("OAUTHBEARER", OAUTH), ("GSSAPI", GSSAPI), ("OTHER", PLAIN), ("PLAIN", b"\0\xff\0x"), (None, PLAIN)]


@pytest.mark.parametrize(("mechanism", "token"), UNKNOWN_TOKENS)
def test_a_login_under_a_name_that_is_not_known_is_no_anonymous_one(mechanism: str | None, token: bytes) -> None:
    talk = talk_after(mechanism)
    talk.client(token_of(token)).broker(answered())
    assert talk.session.principal == UNKNOWN
    talk.client(token_of(b"more", 3)).broker(answered(3))
    assert talk.session.principal == UNKNOWN


def test_a_delegation_token_is_not_taken_for_a_user_with_its_id() -> None:
    talk = talk_after(SHA_256)
    talk.client(token_of(b"n,,n=alice,r=abc,tokenauth=TRUE")).broker(answered())
    talk.client(token_of(FINAL, 3)).broker(answered(3))
    assert talk.session.principal == UNKNOWN


def test_a_mechanism_that_the_broker_does_not_know_is_not_that_of_later_tokens() -> None:
    talk = talk_after(None)
    talk.client(handshake("PLAIN")).broker(shaken(1, UNSUPPORTED))
    talk.client(token_of(PLAIN)).broker(answered())
    assert talk.session.principal == UNKNOWN


def test_nothing_that_follows_a_token_is_looked_at_before_the_broker_has_answered_it() -> None:
    """Also in one segment with it, also in the middle of SCRAM."""
    talk, later = talk_after(None), request(ApiKey.HEARTBEAT, 3, 9, bytes(9))
    both = handshake(SHA_256) + token_of(FIRST)
    talk.client(both + token_of(FINAL, 3) + later)
    assert talk.to_broker == both
    talk.client(later[:5])
    talk.broker(shaken() + answered())
    assert talk.to_broker == both + token_of(FINAL, 3)
    assert talk.session.principal is None
    talk.broker(answered(3))
    assert talk.to_broker == both + token_of(FINAL, 3) + later
    assert talk.session.principal == "User:alice"
    assert talk.to_client == shaken() + answered() + answered(3)


def test_a_request_that_cannot_be_read_ends_the_connection() -> None:
    talk = talk_after("PLAIN")
    talk.client(oracle.framed(token_of(PLAIN)[4:-3]))
    assert talk.cause == "unreadable_request"


def test_a_second_login_counts_once_it_has_succeeded() -> None:
    talk = talk_after("PLAIN")
    talk.client(token_of(PLAIN)).broker(answered())
    talk.client(handshake("PLAIN", 3) + token_of(b"\0bob\0x", 4)).broker(shaken(3) + answered(4, FAILED))
    assert talk.session.principal == "User:alice"
    talk.client(handshake(SHA_512, 5) + token_of(b"n,,n=bob,r=abc", 6)).broker(shaken(5) + answered(6))
    assert talk.session.principal == "User:alice"
    talk.client(token_of(FINAL, 7)).broker(answered(7))
    assert talk.session.principal == "User:bob"
