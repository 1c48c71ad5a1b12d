"""Tokens with which the sidecar logs in: from a file, a token endpoint (RFC 6749 section 4.4), or a plug-in.

They are asked for in threads, and kept. Plug-ins provide those of AWS MSK IAM or Azure, for example.
"""

from __future__ import annotations

import asyncio
import base64
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kafka_sidecar.plugins.hooks import hooks_of
from kafka_sidecar.plugins.registry import Kind
from kafka_sidecar.proxy.config.sasl import BrokerSasl, read_secret
from kafka_sidecar.proxy.security.sasl.conversation import LoginError, Tokens, oauthbearer

CLIENT = ("client_id", "client_secret")


@dataclass(frozen=True, slots=True)
class Token:
    """One token."""

    value: str = field(repr=False)
    expires_at: float | None = None  # seconds since 1970; None: it is not kept, but asked for with each login
    extensions: Mapping[str, str] = field(default_factory=dict, repr=False)  # KIP-342


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


REFRESH_AFTER = 0.8  # of a token's lifetime, as Kafka's sasl.login.refresh.window.factor
TIMEOUT_S = 10.0
RETRY_S = 1.0  # between two requests that fail
MAX_RESPONSE_BYTES = 1 << 20

Fetch = Callable[[], Token]  # blocks; raises an exception whose text has no secret


class TokenCache:
    """The current token: fetched again before it expires; if that fails it is used until it does."""

    def __init__(self, fetch: Fetch, now: Callable[[], float] = time.time) -> None:
        self._fetch = fetch
        self._now = now  # seconds since 1970
        self._token: Token | None = None
        self._refresh_at = 0.0
        self._failed_at = float("-inf")
        self._failure = ""
        self._turn = asyncio.Lock()

    async def get(self) -> Token:
        """A token that is valid. Raises LoginError."""
        async with self._turn:
            now = self._now()
            if self._token is not None and now < self._refresh_at:
                return self._token
            if now - self._failed_at >= RETRY_S:
                await self._refresh(now)
            if self._token is None or not _is_valid(self._token, now):
                raise LoginError(self._failure)
            return self._token

    async def _refresh(self, now: float) -> None:
        try:
            async with asyncio.timeout(TIMEOUT_S):
                token = await asyncio.to_thread(self._fetch)
        except Exception as error:  # noqa: BLE001 - a plug-in may raise anything
            self._failed_at = now
            self._failure = f"no token: {error}" if str(error) else f"no token: {type(error).__name__}"
            return
        self._token = token
        lifetime = (token.expires_at or now) - now
        self._refresh_at = now + lifetime * REFRESH_AFTER


def _is_valid(token: Token, now: float) -> bool:
    return token.expires_at is None or now < token.expires_at


def request_token(endpoint: str, client_id: str, client_secret: str, scope: str | None) -> Token:
    """A token by client credentials. Raises OSError, ValueError; neither quotes what was sent or received."""
    form = {"grant_type": "client_credentials"} | ({"scope": scope} if scope else {})
    login = base64.b64encode(f"{_quoted(client_id)}:{_quoted(client_secret)}".encode()).decode()
    request = urllib.request.Request(  # noqa: S310 - the scheme is checked by the configuration
        endpoint,
        urllib.parse.urlencode(form).encode(),
        {"Authorization": f"Basic {login}", "Accept": "application/json"},
    )
    requested_at = time.time()
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:  # noqa: S310 - as above
            answer = json.loads(response.read(MAX_RESPONSE_BYTES))
    except urllib.error.HTTPError as error:
        error.close()
        raise OSError(f"{endpoint} responds with {error.code}: see client_id, client_secret and scope") from None
    except urllib.error.URLError as error:
        raise OSError(f"{endpoint} cannot be reached: {error.reason}") from None
    except ValueError:
        answer = None
    if not isinstance(answer, dict) or not isinstance(answer.get("access_token"), str):
        raise ValueError(f"{endpoint} responds with no access_token")
    lifetime_s = answer.get("expires_in")
    token = answer["access_token"]
    expires_at = requested_at + lifetime_s if isinstance(lifetime_s, int | float) else expiry_of(token)
    return Token(token, expires_at)


def expiry_of(token: str) -> float | None:
    """When a JWT expires, in seconds since 1970, by its own word; None if it does not say, or is none."""
    try:
        claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
        expires_at = claims["exp"]
    except (ValueError, IndexError, KeyError, TypeError):
        return None
    return float(expires_at) if isinstance(expires_at, int | float) else None


def _quoted(text: str) -> str:
    """RFC 6749 section 2.3.1."""
    return urllib.parse.quote_plus(text)


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
