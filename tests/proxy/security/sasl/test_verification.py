"""The server's side against the client's, which brokers accept, and against anything."""

from __future__ import annotations

import base64
import hmac
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_sidecar.proxy.security.sasl import conversation, scram
from kafka_sidecar.proxy.security.sasl.conversation import Tokens
from kafka_sidecar.proxy.security.sasl.users import Users, Verifier, create_verifier
from kafka_sidecar.proxy.security.sasl.verification import (
    Accepted,
    KnownPasswords,
    RejectedError,
    Verification,
    oauthbearer,
    plain,
)
from kafka_sidecar.proxy.security.sasl.verification import scram as verify_scram

MECHANISMS = ["SCRAM-SHA-256", "SCRAM-SHA-512"]
USERS: Users = {(name, "a=l,ice"): create_verifier(name, "hush") for name in MECHANISMS}


def accepted(verification: Verification, tokens: Tokens) -> str:
    """Who has logged in; RejectedError if no client has."""
    next(verification)
    token = next(tokens)
    while True:
        try:
            answer = verification.send(token)
        except StopIteration as done:
            with pytest.raises(StopIteration):
                tokens.send(done.value.token)
            return str(done.value.name)
        token = tokens.send(answer)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_scram_client_with_the_password_is_accepted_and_trusts_the_server(mechanism: str) -> None:
    client = scram.client(mechanism, "a=l,ice", "hush", "abc")
    assert accepted(verify_scram(mechanism, USERS, "def"), client) == "a=l,ice"


@pytest.mark.parametrize(("user", "password"), [("a=l,ice", "Hush"), ("bob", "hush"), ("", "")])
def test_unknown_users_and_wrong_passwords_get_the_same_error(user: str, password: str) -> None:
    text = "due to invalid credentials with SASL mechanism SCRAM-SHA-256"
    with pytest.raises(RejectedError, match=text):
        accepted(verify_scram("SCRAM-SHA-256", USERS, "def"), scram.client("SCRAM-SHA-256", user, password, "abc"))
    with pytest.raises(RejectedError, match="Invalid username or password"):
        accepted(plain(USERS, KnownPasswords()), conversation.plain(user, password))


def test_what_a_client_is_asked_does_not_say_which_users_exist() -> None:
    users: Users = {("SCRAM-SHA-512", "carol"): create_verifier("SCRAM-SHA-512", "hush", 5000), **USERS}

    def asked(name: str) -> dict[str, str]:
        steps = verify_scram("SCRAM-SHA-512", users, "def")
        next(steps)
        return scram.parse_fields(steps.send(b"n,,n=%s,r=abc" % name.encode()))

    known, bob, dave = asked("carol"), asked("bob"), asked("dave")
    assert known["i"] == bob["i"] == dave["i"] == "5000"
    assert len({known["s"], bob["s"], dave["s"]}) == 3
    assert len(known["s"]) == len(bob["s"])
    assert asked("bob") == bob


def test_the_example_of_the_rfc_is_reproduced() -> None:
    keys = scram.derive_keys("sha256", b"pencil", scram.from_base64("W22ZaJ0SNY7soEsUEjb6gQ=="), 4096)
    salt = scram.from_base64("W22ZaJ0SNY7soEsUEjb6gQ==")
    users: Users = {("SCRAM-SHA-256", "user"): Verifier(salt, keys.stored_key, keys.server_key, 4096)}
    steps = verify_scram("SCRAM-SHA-256", users, "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    next(steps)
    nonce = b"rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    assert steps.send(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO") == b"r=%s,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096" % nonce
    with pytest.raises(StopIteration) as done:
        steps.send(b"c=biws,r=%s,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=" % nonce)
    assert done.value.value.token == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


@pytest.mark.parametrize(
    ("binding", "nonce", "is_accepted"),
    [
        (b"biws", b"abcdef", True),
        (b"eSws", b"abcdef", False),  # y,,
        (b"cD10bHMtdW5pcXVlLCw=", b"abcdef", False),  # p=tls-unique,,
        (b"biws", b"abc", False),
        (b"biws", b"abcdeg", False),
        (b"biws", b"abcdefg", False),
    ],
)
def test_the_last_message_repeats_binding_and_nonce_though_its_proof_is_right(
    binding: bytes, nonce: bytes, is_accepted: bool
) -> None:
    steps = verify_scram("SCRAM-SHA-256", USERS, "def")
    next(steps)
    challenge = steps.send(b"n,,n=a=3Dl=2Cice,r=abc")
    fields = scram.parse_fields(challenge)
    keys = scram.derive_keys("sha256", b"hush", scram.from_base64(fields["s"]), int(fields["i"]))
    final = b"c=%s,r=%s" % (binding, nonce)
    signature = hmac.digest(keys.stored_key, b"n=a=3Dl=2Cice,r=abc,%s,%s" % (challenge, final), "sha256")
    proof = base64.b64encode(scram.xor(keys.client_key, signature))
    with pytest.raises(StopIteration if is_accepted else RejectedError):
        steps.send(b"%s,p=%s" % (final, proof))


def test_plain_is_verified_with_the_keys_of_scram() -> None:
    assert accepted(plain(USERS, KnownPasswords()), conversation.plain("a=l,ice", "hush")) == "a=l,ice"


def test_no_user_logs_in_for_another_user() -> None:
    steps = plain(USERS, KnownPasswords())
    next(steps)
    with pytest.raises(RejectedError):
        steps.send(b"bob\0a=l,ice\0hush")


def test_a_token_is_for_whom_it_is_verified() -> None:
    assert (
        accepted(oauthbearer({"t1": Accepted("alice")}.__getitem__), conversation.oauthbearer("t1", {"a": "b"}))
        == "alice"
    )


def test_a_token_that_is_not_accepted_is_answered_as_brokers_do() -> None:
    def verify(token: str) -> Accepted:
        raise RejectedError("expired")

    steps = oauthbearer(verify)
    next(steps)
    assert steps.send(b"n,,\1auth=Bearer t1\1\1") == b'{"status": "invalid_token"}'
    with pytest.raises(RejectedError, match="not accepted"):
        steps.send(b"\1")


@given(st.lists(st.binary(max_size=100), min_size=3, max_size=3), st.booleans())
def test_hostile_tokens_are_rejected_and_raise_nothing_else(tokens: list[bytes], begins_well: bool) -> None:
    verifications: list[Callable[[], Verification]] = [
        lambda: plain(USERS, KnownPasswords()), lambda: verify_scram("SCRAM-SHA-256", USERS, "x"),
        lambda: oauthbearer(_reject),
    ]  # fmt: skip
    for begin in verifications:
        steps = begin()
        next(steps)
        sent = [b"n,,n=a=3Dl=2Cice,r=abc", *tokens] if begins_well else tokens
        assert _is_rejected(steps, sent)


def _is_rejected(steps: Verification, tokens: list[bytes]) -> bool:
    try:
        for token in tokens:
            steps.send(token)
    except RejectedError:
        return True
    return False


def _reject(token: str) -> Accepted:
    raise RejectedError("no")
