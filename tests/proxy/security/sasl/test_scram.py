"""SCRAM against the example of RFC 7677, and against brokers that send anything."""

from __future__ import annotations

from collections.abc import Generator, Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_sidecar.proxy.security.sasl.scram import MAX_ITERATIONS, ScramError, client

NONCE = "rOprNGfwEbeRWgbNEkqO"
FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
FINAL = b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def test_the_example_of_the_rfc_is_reproduced() -> None:
    steps = client("SCRAM-SHA-256", "user", "pencil", NONCE)
    assert next(steps) == FIRST
    assert steps.send(SERVER_FIRST) == FINAL
    with pytest.raises(StopIteration):
        steps.send(SERVER_FINAL)


def test_separators_in_a_user_name_are_escaped() -> None:
    assert next(client("SCRAM-SHA-512", "a=b,c", "x", "n")) == b"n,,n=a=3Db=2Cc,r=n"


@pytest.mark.parametrize(
    ("server_first", "problem"),
    [
        (b"r=other,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "nonce"),
        (b"r=rOprNGfwEbeRWgbNEkqO,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "nonce"),
        (b"r=rOprNGfwEbeRWgbNEkqOx,s=%%,i=4096", "base64"),
        (b"r=rOprNGfwEbeRWgbNEkqOx,s=,i=4096", "base64"),
        (b"r=rOprNGfwEbeRWgbNEkqOx,s=W22Z,i=1", "iterations"),
        (b"r=rOprNGfwEbeRWgbNEkqOx,s=W22Z,i=%d" % (MAX_ITERATIONS + 1), "iterations"),
        (b"r=rOprNGfwEbeRWgbNEkqOx,s=W22Z", "iterations"),
        (b"r=a,r=b", "fields"),
        (b"\xff", "UTF-8"),
        (b"r=" + b"a" * 5000, "bytes"),
    ],
)
def test_a_first_token_that_the_rfc_forbids_is_an_error(server_first: bytes, problem: str) -> None:
    steps = client("SCRAM-SHA-256", "user", "pencil", NONCE)
    next(steps)
    with pytest.raises(ScramError, match=problem):
        steps.send(server_first)


@pytest.mark.parametrize(
    ("server_final", "problem"),
    [(b"v=AAAA", "does not know"), (b"e=invalid-proof", "rejects"), (b"x=1", "base64")],
)
def test_a_broker_that_does_not_know_the_password_is_not_trusted(server_final: bytes, problem: str) -> None:
    steps = client("SCRAM-SHA-256", "user", "pencil", NONCE)
    next(steps)
    steps.send(SERVER_FIRST)
    with pytest.raises(ScramError, match=problem):
        steps.send(server_final)


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_hostile_tokens_raise_scram_error_and_nothing_else(first: bytes, final: bytes) -> None:
    for tokens in ((first, final), (SERVER_FIRST, final)):
        steps = client("SCRAM-SHA-256", "user", "pencil", NONCE)
        next(steps)
        assert _fails(steps, tokens)


def _fails(steps: Generator[bytes, bytes, None], tokens: Iterable[bytes]) -> bool:
    """Whether one of the broker's tokens ends the login."""
    try:
        for token in tokens:
            steps.send(token)
    except ScramError:
        return True
    return False
