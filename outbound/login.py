"""How requests say who sends them: user and password, a token of a file, or one of a token endpoint (RFC 6749)."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote_plus, urlencode

from kafka_sidecar.outbound.http import HttpClient, OutboundError

REFRESH_AFTER = 0.8  # of a token's lifetime, as Kafka's sasl.login.refresh.window.factor
TIMEOUT_S = 10.0
RETRY_S = 1.0  # between two requests that fail
MAX_RESPONSE_BYTES = 1 << 20
MAX_SECRET_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class Token:
    """One token."""

    value: str = field(repr=False)
    expires_at: float | None = None  # seconds since 1970; None: it is not kept, but asked for with each login
    extensions: Mapping[str, str] = field(default_factory=dict, repr=False)  # KIP-342


class KeptToken:
    """The current token: renewed before it expires; while that fails it is used until it does."""

    def __init__(self) -> None:
        self.failure = ""
        self._token: Token | None = None
        self._refresh_at = 0.0
        self._failed_at = float("-inf")

    def is_due(self, now: float) -> bool:
        """Whether another one is to be asked for."""
        is_fresh = self._token is not None and now < self._refresh_at
        return not is_fresh and now - self._failed_at >= RETRY_S

    def put(self, token: Token, now: float) -> None:
        self._token = token
        lifetime = (token.expires_at or now) - now
        self._refresh_at = now + lifetime * REFRESH_AFTER

    def fail(self, error: BaseException, now: float) -> None:
        self._failed_at = now
        self.failure = f"no token: {error}" if str(error) else f"no token: {type(error).__name__}"

    def valid(self, now: float) -> Token | None:
        token = self._token
        return token if token is not None and (token.expires_at is None or now < token.expires_at) else None


def request_token(
    endpoint: str, client_id: str, client_secret: str, scope: str | None, timeout_s: float = TIMEOUT_S
) -> Token:
    """A token by client credentials. Raises OSError, ValueError; neither quotes what was sent or received."""
    form = {"grant_type": "client_credentials"} | ({"scope": scope} if scope else {})
    login = base64.b64encode(f"{quote_plus(client_id)}:{quote_plus(client_secret)}".encode()).decode()
    headers = {
        "Authorization": f"Basic {login}",
        "Accept": "application/json",
        "Content-Type": "application/x-www-form-urlencoded",
    }
    requested_at = time.time()
    client = HttpClient([endpoint], timeout_s, MAX_RESPONSE_BYTES)
    try:
        response = client.request("POST", "", headers, urlencode(form).encode())
    finally:
        client.close()
    if response.status != 200:
        raise OSError(f"{endpoint} responds with {response.status}: see client_id, client_secret and scope")
    try:
        answer = json.loads(response.body)
    except (ValueError, RecursionError):
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


class Login:
    """The header `Authorization`. Files are read for each request, so that what is in them may be replaced."""

    def __init__(
        self,
        username: str | None = None,
        password: str | None = None,
        password_file: str | None = None,
        token_file: str | None = None,
        token_endpoint: str | None = None,
        client_id: str = "",
        client_secret: str | None = None,
        client_secret_file: str | None = None,
        scope: str | None = None,
        timeout_s: float = TIMEOUT_S,
        now: Callable[[], float] = time.time,
    ) -> None:
        """One of `username`, `token_file` and `token_endpoint`, or none."""
        self._username = username
        self._password = password, password_file
        self._token_file = token_file
        self._endpoint = token_endpoint
        self._client_id = client_id
        self._client_secret = client_secret, client_secret_file
        self._scope = scope
        self._timeout_s = timeout_s
        self._now = now
        self._kept = KeptToken()
        self._turn = threading.Lock()

    def headers(self) -> Mapping[str, str]:
        """Raises OutboundError."""
        if self._username is not None:
            login = f"{self._username}:{_secret(*self._password)}".encode()
            return {"Authorization": f"Basic {base64.b64encode(login).decode()}"}
        if self._token_file is not None:
            return _bearer(_secret(None, self._token_file).strip(), self._token_file)
        if self._endpoint is not None:
            return _bearer(self._token(self._endpoint).value, self._endpoint)
        return {}

    def forget(self) -> None:
        """The server has rejected it: the next request has another token."""
        with self._turn:
            self._kept = KeptToken()

    def _token(self, endpoint: str) -> Token:
        with self._turn:  # one request for all
            now = self._now()
            if self._kept.is_due(now):
                try:
                    secret = _secret(*self._client_secret)
                    token = request_token(endpoint, self._client_id, secret, self._scope, self._timeout_s)
                    self._kept.put(token, now)
                except (OSError, ValueError) as error:
                    self._kept.fail(error, now)
            if (valid := self._kept.valid(now)) is None:
                raise OutboundError(self._kept.failure or "no token", "login")
            return valid


def _bearer(token: str, source: str) -> Mapping[str, str]:
    if not token.isascii() or not token.isprintable():
        raise OutboundError(f"{source} has no token: it is one line of letters, digits and signs", "login")
    return {"Authorization": f"Bearer {token}"}


def _secret(text: str | None, path: str | None) -> str:
    """The text itself, or that of the file."""
    if text is not None or path is None:
        return text or ""
    try:
        with Path(path).open("rb") as file:
            text = file.read(MAX_SECRET_BYTES).decode().rstrip("\r\n")
    except OSError as error:
        raise OutboundError(f"{path} cannot be read: {error.strerror}", "login") from None
    except UnicodeDecodeError:
        raise OutboundError(f"{path} is not text in UTF-8", "login") from None
    if not text:
        raise OutboundError(f"{path} is empty: write the secret into it", "login")
    return text
