"""Keys for signatures: what of a JWK set is used, and what is known of an endpoint."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ed448, rsa
from support.jws import SigningKey, key_set

from kafka_sidecar.outbound.http import ClientTls
from kafka_sidecar.outbound.jwks import KeyEndpoint, KeysError, fetch_keys, parse_keys, read_keys

KEY = SigningKey("k1")


def parsed(**changed: object) -> list[str | None]:
    """The ids of the keys of a set: one that is changed, and one that is not."""
    other = SigningKey("other").jwk
    return [key.key_id for key in parse_keys(json.dumps({"keys": [{**KEY.jwk, **changed}, other]}), "keys")]


@pytest.mark.parametrize(
    ("changed", "is_used"),
    [
        ({}, True),
        ({"use": "sig", "alg": "ES256", "key_ops": ["verify", "sign"]}, True),
        ({"key_ops": ["sign"]}, False), ({"key_ops": []}, False),
        ({"use": "enc"}, False), ({"alg": "ES384"}, False), ({"crv": "P-384"}, False), ({"kty": "RSA"}, False),
        ({"crv": "secp256k1"}, False),
    ],
)  # fmt: skip
def test_a_key_is_used_only_for_what_it_says(changed: dict[str, object], is_used: bool) -> None:
    assert parsed(**changed) == ["k1"] * is_used + ["other"]


def test_of_a_private_key_nothing_but_its_public_half_is_read() -> None:
    for algorithm in ("ES256", "EdDSA", "RS256"):
        key = SigningKey("k", algorithm)
        (read,) = parse_keys(json.dumps({"keys": [key.private_jwk]}), "keys")
        assert "Private" not in type(read.public).__name__


def test_rsa_keys_below_2048_bits_are_not_used() -> None:
    short = SigningKey("short", "RS256", rsa.generate_private_key(public_exponent=65537, key_size=1024))
    with pytest.raises(KeysError, match="no RSA or elliptic key"):
        parse_keys(key_set(short), "keys")


def test_keys_of_both_edwards_curves_are_used_and_those_for_agreement_are_not() -> None:
    both = [SigningKey("a", "EdDSA"), SigningKey("b", "EdDSA", ed448.Ed448PrivateKey.generate())]
    agreement = {"kty": "OKP", "crv": "X25519", "x": both[0].jwk["x"]}
    found = parse_keys(json.dumps({"keys": [*(key.jwk for key in both), agreement]}), "keys")
    assert [key.algorithms for key in found] == [("EdDSA",)] * 2


def test_a_file_with_more_than_a_megabyte_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text(json.dumps({"keys": [KEY.jwk], "more": "x" * (1 << 20)}))
    with pytest.raises(KeysError, match="is not a JWK set"):
        read_keys(tmp_path / "keys")


async def test_what_went_wrong_last_is_known_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    now = [1000.0]
    endpoint = KeyEndpoint("http://127.0.0.1:1/keys", 60, now=lambda: now[0], pause_s=10)
    assert endpoint.is_due("k1")
    await endpoint.refresh()
    assert (endpoint.are_current, endpoint.requests, endpoint.known) == (False, 1, ())
    assert "127.0.0.1:1" in endpoint.failure
    assert "\n" not in endpoint.failure
    assert not endpoint.is_due("k1")
    assert "signature keys not refreshed" in caplog.text


def test_certificates_that_cannot_be_used_are_an_error_of_the_request(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("no PEM")
    with pytest.raises(OSError, match=r"ca\.pem cannot be used"):
        fetch_keys("https://127.0.0.1:1/keys", ClientTls(str(tmp_path / "ca.pem")))
