"""The keys of tokens: what a JWK set may hold, when it is asked for again, and what happens where that fails."""

from __future__ import annotations

import asyncio
import http.server
import json
import threading
from pathlib import Path

import pytest
from support.in_process import until
from support.signed_tokens import Signer, key_set

from kafka_sidecar.outbound.http import OutboundError
from kafka_sidecar.outbound.jwks import KeysError, fetch_keys, parse_keys
from kafka_sidecar.proxy.security.sasl.jwt_tokens import EndpointKeys, FileKeys

FIRST, SECOND = Signer("k1"), Signer.elliptic("k2")


def test_keys_are_for_the_algorithms_of_their_kind() -> None:
    first, second = parse_keys(key_set(FIRST, SECOND), "keys")
    assert (first.key_id, second.key_id) == ("k1", "k2")
    assert "RS256" in first.algorithms
    assert second.algorithms == ("ES256",)


@pytest.mark.parametrize(
    "text",
    [
        "no json", "[]", "{}", '{"keys": 1}', '{"keys": []}', '{"keys": [{"kty": "oct", "k": "c2VjcmV0"}]}',
        '{"keys": [{"kty": "RSA", "n": "!", "e": "AQAB"}]}', json.dumps({"keys": [FIRST.jwk | {"use": "enc"}]}),
        json.dumps({"keys": [FIRST.jwk | {"alg": "HS256"}]}),
    ],
)  # fmt: skip
def test_a_set_without_a_key_for_signatures_is_rejected(text: str) -> None:
    with pytest.raises(KeysError, match=r"keys\.json"):
        parse_keys(text, "keys.json")


def test_a_key_that_cannot_be_used_does_not_cost_the_others() -> None:
    broken = [
        {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA", "kid": "b"},
        {"kty": ["RSA"]},
        {"kty": "EC", "crv": {}},
        SECOND.jwk | {"key_ops": None},
    ]
    (key,) = parse_keys(json.dumps({"keys": [*broken, FIRST.jwk]}), "keys")
    assert key.key_id == "k1"


def test_a_file_is_read_again_when_it_changes_and_the_previous_keys_stay_where_it_cannot_be_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "keys.json"
    path.write_text(key_set(FIRST))
    keys = FileKeys(path)
    path.write_text(key_set(FIRST, SECOND))
    assert len(keys.current()) == 2
    path.write_text("{")
    assert len(keys.current()) == 2
    assert "token keys rejected" in caplog.text
    assert not keys.is_due("other")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(KeysError, match="name a readable file"):
        FileKeys(tmp_path / "missing")


class Endpoint:
    """What is asked for, and a clock."""

    def __init__(self) -> None:
        self.answer: str | Exception = key_set(FIRST)
        self.asked = 0
        self.now = 1000.0
        self.keys = EndpointKeys("https://idp/keys", 3600, self.fetch, lambda: self.now)

    def fetch(self, url: str) -> bytes:
        assert url == "https://idp/keys"
        self.asked += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer.encode()


async def test_keys_are_asked_for_by_the_first_token_and_then_once_an_hour_without_a_login_waiting() -> None:
    endpoint = Endpoint()
    assert endpoint.keys.is_due("k1")
    await endpoint.keys.refresh()
    assert [key.key_id for key in endpoint.keys.current()] == ["k1"]
    endpoint.now += 3599
    endpoint.keys.ask_if_old()
    await asyncio.sleep(0.05)
    assert endpoint.asked == 1
    endpoint.now += 1
    for _ in range(3):
        assert not endpoint.keys.is_due("k1")
        endpoint.keys.ask_if_old()
        assert [key.key_id for key in endpoint.keys.current()] == ["k1"]
    await until(lambda: endpoint.asked == 2)


async def test_without_any_key_the_endpoint_is_asked_again_after_a_second() -> None:
    endpoint = Endpoint()
    endpoint.answer = OSError("refused")
    await endpoint.keys.refresh()
    assert not endpoint.keys.is_due("k1")
    endpoint.now += 1
    assert endpoint.keys.is_due("k1")


async def test_a_new_key_is_asked_for_at_most_once_a_minute() -> None:
    endpoint = Endpoint()
    await endpoint.keys.refresh()
    assert not endpoint.keys.is_due("k2")
    endpoint.now += 60
    assert endpoint.keys.is_due("k2")
    endpoint.answer = key_set(FIRST, SECOND)
    await endpoint.keys.refresh()
    assert not endpoint.keys.is_due("k2")


async def test_while_the_endpoint_fails_the_previous_keys_stay(caplog: pytest.LogCaptureFixture) -> None:
    endpoint = Endpoint()
    await endpoint.keys.refresh()
    for failure in (OSError("refused"), OutboundError("it is not HTTP", "invalid"), "{", "[" * 100_000):
        endpoint.now += 3600
        endpoint.answer = failure
        await endpoint.keys.refresh()
        assert len(endpoint.keys.current()) == 1
    assert caplog.text.count("token keys not refreshed") == 4


async def test_logins_at_the_same_time_ask_once() -> None:
    endpoint = Endpoint()
    await asyncio.gather(*(endpoint.keys.refresh() for _ in range(20)))
    assert endpoint.asked == 1


async def test_keys_are_fetched_by_http() -> None:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(key_set(FIRST).encode())

        def log_message(self, *arguments: object) -> None:
            return

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        found = await asyncio.to_thread(fetch_keys, f"http://127.0.0.1:{server.server_port}/keys")
    assert parse_keys(found, "keys")[0].key_id == "k1"
