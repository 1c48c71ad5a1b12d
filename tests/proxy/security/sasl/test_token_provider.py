"""Plug-ins that provide tokens."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import pytest

from kafka_sidecar.proxy.config.sasl import BrokerSasl
from kafka_sidecar.proxy.security.sasl.credentials import Credentials, open_credentials
from kafka_sidecar.proxy.security.sasl.token_provider import Token, TokenProvider


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
