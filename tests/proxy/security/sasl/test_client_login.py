"""Before its login a client may send ApiVersions and SASL; anything else ends the connection, and nothing is kept."""

from __future__ import annotations

from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import oracle
from support.dialogue import Dialogue, pieces, request

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.proxy.relay.exchange import RouteError
from kafka_sidecar.proxy.security.sasl.client_login import MAX_FRAME_BYTES, MAX_FRAMES, ClientLogin
from kafka_sidecar.proxy.security.sasl.users import Users, create_verifier
from kafka_sidecar.proxy.security.sasl.verification import KnownPasswords, plain

USERS: Users = {("SCRAM-SHA-256", "alice"): create_verifier("SCRAM-SHA-256", "hush")}
UNSUPPORTED_MECHANISM, FAILED = 33, 58
VERSIONS = request(ApiKey.API_VERSIONS, 0, 1)
HANDSHAKE = oracle.request_frame(oracle.request(ApiKey.SASL_HANDSHAKE, 1, mechanism="PLAIN"), 2)
METADATA = oracle.request_frame(oracle.request(ApiKey.METADATA, 12), 4)


def token(password: bytes = b"hush", correlation_id: int = 3) -> bytes:
    message = oracle.request(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=b"\0alice\0" + password)
    return oracle.request_frame(message, correlation_id)


def versions(version: int, correlation_id: int) -> bytes:
    return oracle.framed(pack(">i", correlation_id) + b"versions %d" % version)


def client_login() -> ClientLogin:
    return ClientLogin(Dialogue().session, {"PLAIN": lambda: plain(USERS, KnownPasswords())}, versions)


def fed(one: ClientLogin, chunk: bytes) -> bytes:
    """The responses to a chunk, where every token has its turn at once."""
    out = one.feed(chunk)
    while one.awaits_turn:
        out += one.take_turn(one.verify())
    return out


def test_a_login_lets_the_requests_after_it_through() -> None:
    one = client_login()
    out = oracle.frames_of(fed(one, VERSIONS + HANDSHAKE + token() + METADATA[:20]))
    assert out[0] == versions(0, 1)
    assert oracle.read_response(ApiKey.SASL_HANDSHAKE, 1, out[1])[1].mechanisms == ("PLAIN",)
    assert oracle.read_response(ApiKey.SASL_AUTHENTICATE, 2, out[2])[1].error_code == 0
    assert (one.is_open, one.rest, one.closing) == (True, METADATA[:20], None)


@given(st.lists(st.integers(0, 1000), max_size=20))
def test_any_chunks_give_the_same_responses(cuts: list[int]) -> None:
    whole, one = client_login(), client_login()
    data = VERSIONS + HANDSHAKE + token()
    assert b"".join(fed(one, piece) for piece in pieces(data, cuts)) == fed(whole, data)
    assert one.is_open


def test_the_principal_and_the_client_id_are_known_after_the_login() -> None:
    client = Dialogue().session
    one = ClientLogin(client, {"PLAIN": lambda: plain(USERS, KnownPasswords())}, versions)
    fed(one, HANDSHAKE)
    fed(one, token())
    assert (client.principal, client.client_id) == ("User:alice", "app")


def test_a_wrong_password_gets_kafkas_error_and_ends_the_connection() -> None:
    one = client_login()
    fed(one, HANDSHAKE)
    _, answer = oracle.read_response(ApiKey.SASL_AUTHENTICATE, 2, fed(one, token(b"Hush")))
    assert (answer.error_code, answer.error_message) == (FAILED, "Authentication failed: Invalid username or password")
    assert one.closing is not None
    assert one.closing.cause == "client_authentication_failed"
    assert fed(one, HANDSHAKE + token()) == b""
    assert not one.is_open


def test_a_token_waits_for_its_turn() -> None:
    one = client_login()
    one.feed(HANDSHAKE)
    assert (one.feed(token() + METADATA), one.awaits_turn, one.is_open) == (b"", True, False)
    _, answer = oracle.read_response(ApiKey.SASL_AUTHENTICATE, 2, one.take_turn(one.verify()))
    assert (answer.error_code, one.awaits_turn, one.is_open, one.rest) == (0, False, True, METADATA)


@pytest.mark.parametrize("chunks", [1, 100])
def test_little_is_kept_while_a_token_waits(chunks: int) -> None:
    one = client_login()
    one.feed(HANDSHAKE + token())
    for _ in range(chunks):
        one.feed(bytes(MAX_FRAME_BYTES // chunks))
    assert one.closing is None
    one.feed(bytes(MAX_FRAME_BYTES))
    assert one.closing is not None
    assert one.closing.detail.endswith("bytes came after a SaslAuthenticate request, before its response")


def test_another_mechanism_gets_those_that_there_are() -> None:
    one = client_login()
    asked = oracle.request_frame(oracle.request(ApiKey.SASL_HANDSHAKE, 1, mechanism="GSSAPI"), 2)
    _, answer = oracle.read_response(ApiKey.SASL_HANDSHAKE, 1, fed(one, asked))
    assert (answer.error_code, answer.mechanisms) == (UNSUPPORTED_MECHANISM, ("PLAIN",))
    assert one.closing is not None


@pytest.mark.parametrize(
    ("sent", "detail"),
    [
        ([METADATA], "Metadata came before the login: set security.protocol and sasl.* of the client, as clients.sasl"),
        ([token()], "SaslAuthenticate came before the login"),
        ([HANDSHAKE, HANDSHAKE], "SaslHandshake came before the login"),
        ([HANDSHAKE, METADATA], "Metadata came before the login"),
        ([request(999, 0, 1)], "api key 999 came before the login"),
        ([VERSIONS] * (MAX_FRAMES + 1), f"more than {MAX_FRAMES} requests came before the login"),
        ([pack(">i", MAX_FRAME_BYTES + 1)], f"a request of {MAX_FRAME_BYTES + 1} bytes came before the login"),
        ([pack(">i", 0)], "a request of 0 bytes came before the login"),
    ],
)
def test_anything_else_ends_the_connection(sent: list[bytes], detail: str) -> None:
    one = client_login()
    for data in sent:
        fed(one, data)
    assert one.closing is not None
    assert (one.closing.cause, one.closing.detail[: len(detail)]) == ("not_authenticated", detail)


def test_the_first_bytes_of_another_protocol_are_named() -> None:
    one = client_login()
    fed(one, b"GET / HTTP/1.1\r\n")
    assert one.closing is not None
    assert one.closing.cause == "not_kafka"


def test_without_a_broker_there_are_no_versions_to_offer() -> None:
    def unknown(version: int, correlation_id: int) -> bytes:
        raise RouteError("broker_unreachable", "no broker has responded yet")

    one = ClientLogin(Dialogue().session, {"PLAIN": lambda: plain(USERS, KnownPasswords())}, unknown)
    assert fed(one, VERSIONS) == b""
    assert one.closing is not None
    assert one.closing.cause == "broker_unreachable"


@given(st.binary(max_size=300), st.booleans())
def test_hostile_bytes_never_open_it_and_no_more_than_a_frame_is_kept(data: bytes, after_handshake: bool) -> None:
    one = client_login()
    if after_handshake:
        fed(one, HANDSHAKE)
    for at in range(0, len(data), 7):
        fed(one, data[at : at + 7])
    assert not one.is_open
    assert len(one._carry) <= MAX_FRAME_BYTES
