"""A login as a dialogue of frames, each read and written by kio."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from support import oracle

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.proxy.security.sasl.conversation import Conversation, LoginError, Tokens, log_in, oauthbearer, plain

ILLEGAL_SASL_STATE, UNSUPPORTED_MECHANISM, FAILED = 34, 33, 58


def handshake_response(correlation_id: int = 0, **fields: Any) -> bytes:
    return oracle.response_frame(oracle.response(ApiKey.SASL_HANDSHAKE, 1, **fields), correlation_id)


def response(correlation_id: int = 1, **fields: Any) -> bytes:
    return oracle.response_frame(oracle.response(ApiKey.SASL_AUTHENTICATE, 2, **fields), correlation_id)


def begun(tokens: Tokens, mechanism: str = "PLAIN") -> tuple[Conversation, bytes]:
    """A login after the handshake, and its next frame."""
    login = log_in(mechanism, tokens)
    next(login)
    return login, login.send(handshake_response(mechanisms=[mechanism]))


def test_the_requests_are_a_handshake_and_a_token_of_the_newest_versions() -> None:
    login = log_in("PLAIN", plain("app", "secret"))
    handshake = oracle.request_frame(oracle.request(ApiKey.SASL_HANDSHAKE, 1, mechanism="PLAIN"), 0, "kafka-sidecar")
    assert next(login) == handshake
    token = oracle.request(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=b"\0app\0secret")
    sent = login.send(handshake_response(mechanisms=["PLAIN"]))
    assert sent == oracle.request_frame(token, 1, "kafka-sidecar")


@pytest.mark.parametrize(("lifetime_ms", "lifetime_s"), [(0, 0.0), (90_000, 90.0)])
def test_a_login_ends_with_the_lifetime_of_the_session(lifetime_ms: int, lifetime_s: float) -> None:
    login, _ = begun(plain("app", "secret"))
    with pytest.raises(StopIteration) as ended:
        login.send(response(session_lifetime=timedelta(milliseconds=lifetime_ms)))
    assert ended.value.value == lifetime_s


@pytest.mark.parametrize(
    ("code", "offered", "problem"),
    [
        (UNSUPPORTED_MECHANISM, ["GSSAPI", "PLAIN"], "set brokers.sasl.mechanism to GSSAPI, PLAIN"),
        (ILLEGAL_SASL_STATE, [], "expects no login at this port"),
    ],
)
def test_a_broker_without_the_mechanism_is_named_with_the_remedy(code: int, offered: list[str], problem: str) -> None:
    login = log_in("SCRAM-SHA-256", plain("app", "secret"))
    next(login)
    with pytest.raises(LoginError, match=problem):
        login.send(handshake_response(error_code=code, mechanisms=offered))


def test_the_brokers_reason_for_a_rejection_is_in_the_error_and_the_password_is_not() -> None:
    login, _ = begun(plain("app", "secret"))
    with pytest.raises(LoginError) as error:
        login.send(response(error_code=FAILED, error_message="Invalid username or password"))
    assert str(error.value) == "the broker rejects the login: Invalid username or password"


def test_a_rejected_token_is_acknowledged_before_the_login_fails() -> None:
    login, frame = begun(oauthbearer("abc", {"logicalCluster": "lkc"}), "OAUTHBEARER")
    assert frame.endswith(b"n,,\1auth=Bearer abc\1logicalCluster=lkc\1\1\0")
    acknowledged = login.send(response(auth_bytes=b'{"status":"invalid_token"}'))
    assert acknowledged.endswith(b"\1\0")
    with pytest.raises(LoginError, match=r"rejects the token: invalid_token|rejects the login"):
        login.send(response(2, error_code=FAILED, error_message="expired"))


def test_a_broker_that_never_ends_the_login_is_an_error() -> None:
    def endless() -> Tokens:
        while True:
            yield b"more"

    login, _ = begun(endless())
    for correlation_id in range(1, 9):
        login.send(response(correlation_id))
    with pytest.raises(LoginError, match="does not end"):
        login.send(response(9))
