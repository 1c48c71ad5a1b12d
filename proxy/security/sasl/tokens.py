"""Tokens with which the sidecar logs in: from a file, a token endpoint (RFC 6749 section 4.4), or a plug-in.

They are asked for in threads, and kept. Plug-ins provide those of AWS MSK IAM or Azure, for example.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any

from kafka_sidecar.outbound.login import TIMEOUT_S, KeptToken, Token, expiry_of, request_token
from kafka_sidecar.plugins.registry import Kind, hooks_of
from kafka_sidecar.proxy.config.sasl import BrokerSasl, read_secret
from kafka_sidecar.proxy.security.sasl.conversation import LoginError, Tokens, oauthbearer

__all__ = ["Bearer", "Token", "TokenCache", "TokenProvider", "expiry_of", "request_token"]

CLIENT = ("client_id", "client_secret")


class TokenProvider:
    """Extend it. Its methods are called in a thread, one at a time."""

    def configure(self, configs: Mapping[str, Any]) -> None:
        """Called once, with the settings. Raises ValueError where one is invalid."""

    def token(self) -> Token:
        """A token that is valid now. What is raised fails the logins that wait for it, so its text has no secret."""
        raise NotImplementedError


TOKEN_PROVIDERS = Kind(
    "token provider",
    TokenProvider,
    "kafka_sidecar.token_providers",
    {},
    "acme.tokens:Signer",
    hooks_of(TokenProvider),
)


Fetch = Callable[[], Token]  # blocks; raises an exception whose text has no secret


class TokenCache:
    """The current token, fetched in a thread: one fetch serves all logins that wait."""

    def __init__(self, fetch: Fetch, now: Callable[[], float] = time.time) -> None:
        self._fetch = fetch
        self._now = now  # seconds since 1970
        self._kept = KeptToken()
        self._turn = asyncio.Lock()

    async def get(self) -> Token:
        """A token that is valid. Raises LoginError."""
        async with self._turn:
            now = self._now()
            if self._kept.is_due(now):
                await self._refresh(now)
            if (valid := self._kept.valid(now)) is None:
                raise LoginError(self._kept.failure)
            return valid

    async def _refresh(self, now: float) -> None:
        try:
            async with asyncio.timeout(TIMEOUT_S):
                self._kept.put(await asyncio.to_thread(self._fetch), now)
        except Exception as error:  # noqa: BLE001 - a plug-in may raise anything
            self._kept.fail(error, now)


class Bearer:
    """A token for OAUTHBEARER."""

    mechanism = "OAUTHBEARER"

    def __init__(self, sasl: BrokerSasl, remedy: str) -> None:
        """Raises ValueError."""
        self._cache = TokenCache(_fetch(sasl))
        self.remedy = remedy

    async def tokens(self) -> Tokens:
        """The client's side of the login: a generator of its bytes, to which the broker's are sent."""
        token = await self._cache.get()
        return oauthbearer(token.value, token.extensions)


def _fetch(sasl: BrokerSasl) -> Fetch:
    if sasl.token_provider is not None:
        provider, _ = TOKEN_PROVIDERS.open("of brokers.sasl", sasl.token_provider, None, sasl.token_settings)
        return provider.token
    if sasl.token_file is not None:
        _token_of(sasl)
        return lambda: _token_of(sasl)
    sasl.options(CLIENT)
    return lambda: _requested_token(sasl)


def _token_of(sasl: BrokerSasl) -> Token:
    """The token that is there now: it is read for each login."""
    token = read_secret(None, sasl.token_file, ".".join((*map(str, sasl.at), "token")))
    assert token is not None
    return Token(token.strip())


def _requested_token(sasl: BrokerSasl) -> Token:
    options = sasl.options(CLIENT)
    assert sasl.token_endpoint is not None
    return request_token(sasl.token_endpoint, options["client_id"], options["client_secret"], options.get("scope"))
