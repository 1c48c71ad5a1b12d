"""Credentials that are a token: from a plug-in, a file or a token endpoint."""

from __future__ import annotations

from kafka_sidecar.proxy.config.sasl import BrokerSasl
from kafka_sidecar.proxy.config.secrets import read_secret
from kafka_sidecar.proxy.security.sasl.conversation import Tokens, oauthbearer
from kafka_sidecar.proxy.security.sasl.token_provider import TOKEN_PROVIDERS, Token
from kafka_sidecar.proxy.security.sasl.tokens import Fetch, TokenCache, request_token

CLIENT = ("client_id", "client_secret")


class Bearer:
    """A token for OAUTHBEARER."""

    mechanism = "OAUTHBEARER"

    def __init__(self, sasl: BrokerSasl, remedy: str) -> None:
        """Raises ValueError."""
        self._cache = TokenCache(_fetch(sasl))
        self.remedy = remedy

    async def tokens(self) -> Tokens:
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
