"""Tokens are verified as Kafka's own handler verifies them; whatever is wrong with one, it is rejected."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Sequence

import jwt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.signed_tokens import Signer, key_set

from kafka_sidecar.outbound.jwks import Key, parse_keys
from kafka_sidecar.proxy.security.sasl.jwt_tokens import TokenRules, TokenVerifier
from kafka_sidecar.proxy.security.sasl.verification import RejectedError

RSA, ELLIPTIC, STRANGER = Signer("r1"), Signer.elliptic("e1"), Signer("r1")


class Fixed:
    """Keys that stay."""

    def __init__(self, keys: Sequence[Key]) -> None:
        self._keys = keys
        self.refreshed = 0
        self.are_current = True

    def current(self) -> Sequence[Key]:
        return self._keys

    def ask_if_old(self) -> None:
        """They never are."""

    def is_due(self, key_id: str | None) -> bool:
        return key_id == "new"

    async def refresh(self) -> None:
        self.refreshed += 1


KEYS = Fixed(parse_keys(key_set(RSA, ELLIPTIC), "keys"))


def verifier(rules: TokenRules = TokenRules()) -> TokenVerifier:  # noqa: B008 - it is frozen
    return TokenVerifier(KEYS, rules)


@pytest.mark.parametrize("signer", [RSA, ELLIPTIC], ids=["rsa", "elliptic"])
def test_a_signed_token_says_who_the_client_is_and_until_when(signer: Signer) -> None:
    accepted = verifier().verify(signer.token("alice", 60))
    assert accepted.name == "alice"
    assert accepted.expires_at == pytest.approx(time.time() + 60, abs=5)


@pytest.mark.parametrize("algorithm", ["RS384", "RS512", "PS256", "PS512"])
def test_every_asymmetric_algorithm_of_a_key_is_accepted(algorithm: str) -> None:
    assert verifier().verify(Signer("r1", RSA.private, algorithm).token()).name == "alice"


def unsigned() -> str:
    return jwt.encode({"sub": "alice", "exp": time.time() + 60}, "", "none")


def signed_with_the_public_key() -> str:
    """The classic attack: the public key taken for a shared secret."""

    def part(value: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    return f"{part({'alg': 'HS256', 'kid': 'r1'})}.{part({'sub': 'alice', 'exp': time.time() + 60})}.AAAA"


@pytest.mark.parametrize(
    ("token", "problem"),
    [
        (lambda: STRANGER.token(), "InvalidSignature"),
        (lambda: RSA.token(lifetime_s=-60), "ExpiredSignature"),
        (lambda: RSA.token(nbf=time.time() + 300), "ImmatureSignature"),
        (lambda: RSA.token(aud="others", iss="here"), "InvalidAudience"),
        (lambda: RSA.token(aud="kafka", iss="elsewhere"), "InvalidIssuer"),
        (lambda: RSA.token(aud="kafka"), "MissingRequiredClaim"),
        (lambda: RSA.token(aud="kafka", iss="here", sub=""), "the claim sub is missing"),
        (lambda: Signer("other", RSA.private).token(), "no key fits"),
        (unsigned, "no key fits"),
        (signed_with_the_public_key, "no key fits"),
        (lambda: "no token", "DecodeError|Decode"),
    ],
)
def test_what_is_wrong_with_a_token_is_said_without_quoting_it(token: object, problem: str) -> None:
    rules = TokenRules(audience=("kafka",), issuer="here")
    text = token()  # type: ignore[operator]
    with pytest.raises(RejectedError, match=problem) as raised:
        verifier(rules).verify(text)
    assert text not in str(raised.value)
    assert "alice" not in str(raised.value)


def test_a_token_without_an_expiry_is_rejected() -> None:
    token = jwt.encode({"sub": "alice"}, RSA.private, "RS256", {"kid": "r1"})
    with pytest.raises(RejectedError, match="MissingRequiredClaim"):
        verifier().verify(token)


def test_clocks_may_differ_by_the_skew() -> None:
    token = RSA.token(lifetime_s=-10)
    assert verifier(TokenRules(skew_s=30)).verify(token).name == "alice"
    with pytest.raises(RejectedError):
        verifier(TokenRules(skew_s=1)).verify(token)


def test_another_claim_can_name_the_client() -> None:
    assert verifier(TokenRules(name_claim="azp")).verify(RSA.token(azp="orders")).name == "orders"


def test_a_token_with_an_unknown_key_asks_for_new_keys_first() -> None:
    new = Signer("new", RSA.private).token()
    assert verifier().needs_keys(b"n,,\1auth=Bearer " + new.encode() + b"\1\1")
    assert not verifier().needs_keys(b"n,,\1auth=Bearer " + RSA.token().encode() + b"\1\1")
    assert not verifier().needs_keys(b"garbage")


@pytest.mark.parametrize(
    "header",
    [b"[" * 11_000, b'{"alg":' + b"[" * 5000 + b"]" * 5000 + b"}", b'{"alg":1e999}', b"\xff"],
    ids=["unclosed", "deep", "endless", "no text"],
)
def test_a_hostile_header_is_rejected_before_and_after_its_key_is_sought(header: bytes) -> None:
    token = base64.urlsafe_b64encode(header).decode().rstrip("=") + ".e30.AAAA"
    assert not verifier().needs_keys(b"n,,\1auth=Bearer " + token.encode() + b"\1\1")
    with pytest.raises(RejectedError):
        verifier().verify(token)


def test_a_token_that_expires_at_no_time_is_rejected() -> None:
    for expiry in (float("inf"), float("nan"), "soon", [1]):
        with pytest.raises(RejectedError):
            verifier().verify(RSA.token(exp=expiry))


@given(st.text(max_size=300))
def test_hostile_tokens_are_rejected_and_raise_nothing_else(text: str) -> None:
    with pytest.raises(RejectedError):
        verifier().verify(text)
    with pytest.raises(RejectedError):
        verifier().verify(RSA.token().rpartition(".")[0] + "." + text)
