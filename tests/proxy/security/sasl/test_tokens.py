"""Tokens are kept until shortly before they expire, and fetched by one login for all."""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from harness.sasl import CLIENT_ID, CLIENT_SECRET, USER, TokenEndpoint, token, token_endpoint

from kafka_sidecar.proxy.config.sasl import BrokerSasl
from kafka_sidecar.proxy.security.sasl.broker_logins import open_credentials
from kafka_sidecar.proxy.security.sasl.conversation import Credentials, LoginError
from kafka_sidecar.proxy.security.sasl.tokens import Bearer, Token, TokenCache, TokenProvider, expiry_of, request_token


class Source:
    """Tokens of 100 seconds, and a clock."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.fetched = 0
        self.error: Exception | None = None
        self.cache = TokenCache(self.fetch, lambda: self.now)

    def fetch(self) -> Token:
        if self.error is not None:
            raise self.error
        self.fetched += 1
        return Token(f"token {self.fetched}", self.now + 100)


async def test_a_token_is_used_for_four_fifths_of_its_lifetime() -> None:
    source = Source()
    assert (await source.cache.get()).value == "token 1"
    source.now += 79
    assert (await source.cache.get()).value == "token 1"
    source.now += 2
    assert (await source.cache.get()).value == "token 2"


async def test_logins_that_begin_together_share_one_token() -> None:
    source = Source()
    tokens = await asyncio.gather(*(source.cache.get() for _ in range(5)))
    assert {one.value for one in tokens} == {"token 1"}
    assert source.fetched == 1


async def test_a_token_that_cannot_be_renewed_is_used_until_it_expires() -> None:
    source = Source()
    await source.cache.get()
    source.now, source.error = source.now + 90, OSError("http://x responds with 503")
    assert (await source.cache.get()).value == "token 1"
    source.now += 20
    with pytest.raises(LoginError, match="no token: http://x responds with 503"):
        await source.cache.get()


async def test_a_failure_is_not_repeated_by_every_login_that_waits() -> None:
    source = Source()
    source.error = OSError("no")
    for _ in range(3):
        with pytest.raises(LoginError):
            await source.cache.get()
    source.error = None
    with pytest.raises(LoginError):
        await source.cache.get()
    source.now += 1
    assert (await source.cache.get()).value == "token 1"


async def test_a_token_without_an_expiry_is_fetched_for_each_login() -> None:
    tokens = iter(range(9))
    cache = TokenCache(lambda: Token(str(next(tokens))))
    assert [(await cache.get()).value for _ in range(3)] == ["0", "1", "2"]


@pytest.fixture(name="endpoint", scope="module")
def _endpoint() -> Iterator[TokenEndpoint]:
    with token_endpoint(lifetime_s=60) as endpoint:
        yield endpoint


def test_a_token_is_requested_with_the_clients_id_and_secret(endpoint: TokenEndpoint) -> None:
    got = request_token(endpoint.url, CLIENT_ID, CLIENT_SECRET, "kafka write")
    assert json.loads(base64.urlsafe_b64decode(got.value.split(".")[1] + "=="))["sub"] == USER
    assert endpoint.requests[-1] == "grant_type=client_credentials&scope=kafka+write"


def test_a_rejected_client_is_an_error_without_its_secret(endpoint: TokenEndpoint) -> None:
    with pytest.raises(OSError, match="responds with 401: see client_id, client_secret") as error:
        request_token(endpoint.url, CLIENT_ID, "wrong-secret", None)
    assert "wrong-secret" not in str(error.value)


def test_an_endpoint_that_is_down_is_an_error() -> None:
    with pytest.raises(OSError, match=r"http://127\.0\.0\.1:1/token cannot be reached: "):
        request_token("http://127.0.0.1:1/token", CLIENT_ID, CLIENT_SECRET, None)


@pytest.mark.parametrize("text", ["", "a", "a.b.c", "a.!!.c", "a.W10.c", token("x").replace(".", "")])
def test_what_is_no_jwt_has_no_expiry(text: str) -> None:
    assert expiry_of(text) is None


def opened(**settings: Any) -> Credentials:
    found = open_credentials(BrokerSasl.model_validate(settings))
    assert found is not None
    return found


class Signer(TokenProvider):
    """Signs with the settings that it is given."""

    def configure(self, configs: Mapping[str, Any]) -> None:
        if "region" not in configs:
            raise ValueError("region: is missing")
        self.region = configs["region"]

    def token(self) -> Token:
        return Token(f"signed-for-{self.region}", None, {"a": "b"})


@pytest.fixture(autouse=True)
def _module(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("acme_tokens")
    module.Signer = Signer  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "acme_tokens", module)


async def test_a_plug_in_provides_tokens() -> None:
    credentials = opened(
        mechanism="OAUTHBEARER", token_provider="acme_tokens:Signer", token_settings={"region": "eu-1"}
    )
    assert next(await credentials.tokens()) == b"n,,\1auth=Bearer signed-for-eu-1\1a=b\1\1"


@pytest.mark.parametrize(
    ("provider", "problem"),
    [
        ("acme_tokens:Signer", "token provider of brokers.sasl: region: is missing"),
        ("acme_tokens:Other", "the module has no such class"),
        ("unknown", "unknown token provider 'unknown'"),
    ],
)
def test_a_plug_in_that_cannot_be_opened_is_named(provider: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        opened(mechanism="OAUTHBEARER", token_provider=provider)


def test_a_token_is_not_shown() -> None:
    assert "hush" not in repr(Token("hush", 1.0, {"a": "hush"}))


def bearer(**settings: Any) -> Bearer:
    return Bearer(BrokerSasl.model_validate({"mechanism": "OAUTHBEARER", **settings}), "correct it")


async def test_a_token_file_is_read_for_each_login(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("one\n")
    credentials = bearer(token_file=file)
    file.write_text("two\n")
    assert next(await credentials.tokens()) == b"n,,\1auth=Bearer two\1\1"


async def test_a_token_of_an_endpoint_is_kept_for_later_logins(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(CLIENT_SECRET)
    with token_endpoint() as tokens:
        credentials = bearer(token_endpoint=tokens.url, client_id=CLIENT_ID, client_secret_file=secret)
        first = next(await credentials.tokens())
    assert next(await credentials.tokens()) == first  # nothing listens there now


async def test_a_token_file_that_is_gone_is_named(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("one")
    credentials = bearer(token_file=file)
    file.unlink()
    with pytest.raises(LoginError, match=rf"brokers\.sasl\.token_file: {file} cannot be read"):
        await credentials.tokens()
