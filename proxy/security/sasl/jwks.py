"""The keys with which tokens are signed (RFC 7517): from a file, or from an endpoint that is asked again at times."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jwt

from kafka_sidecar.outbound.http import HttpClient
from kafka_sidecar.proxy.config.reload import state_of

log = logging.getLogger(__name__)

TIMEOUT_S = 5.0  # below the time that a login has
MAX_BYTES = 1 << 20
UNKNOWN_KEY_S = 60.0  # between two requests because of keys that are not known, as Kafka's brokers pause
RETRY_S = 1.0  # between two requests while there are no keys at all
ELLIPTIC = {"P-256": "ES256", "P-384": "ES384", "P-521": "ES512"}
RSA = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")


class KeysError(ValueError):
    """There are no usable keys; one line that names the source and the remedy."""


@dataclass(frozen=True, slots=True)
class Key:
    """A public key, and the algorithms for which it may be used: never a shared secret, never none."""

    key_id: str | None
    algorithms: tuple[str, ...]
    public: Any


def parse_keys(text: str | bytes, source: str) -> tuple[Key, ...]:
    """The keys of a JWK set; those of other kinds, or for encryption, are ignored. Raises KeysError."""
    try:
        listed = json.loads(text)["keys"]
        found = [key for one in listed if isinstance(one, Mapping) and (key := _parse(one)) is not None]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise KeysError(f"{source} is not a JWK set: it needs an object with keys") from None
    if not found:
        raise KeysError(f"{source} has no RSA or elliptic key for signatures")
    return tuple(found)


def _parse(one: Mapping[str, Any]) -> Key | None:
    by_kind = {"RSA": RSA, "EC": (ELLIPTIC.get(str(one.get("crv"))),), "OKP": ("EdDSA",)}
    algorithms = tuple(name for name in by_kind.get(str(one.get("kty")), ()) if name and one.get("alg", name) == name)
    if not algorithms or one.get("use", "sig") != "sig":
        return None
    try:
        public = jwt.PyJWK(dict(one), algorithms[0]).key
    except (jwt.PyJWTError, ValueError, TypeError):
        return None
    return Key(one.get("kid"), algorithms, public)


class FileKeys:
    """Those of a file, read when it changes; where it cannot be used, the previous ones stay."""

    def __init__(self, path: Path) -> None:
        """Raises KeysError."""
        self._path = path
        self._seen = state_of(path)
        self._keys = self._read()
        self._is_current = True

    @property
    def are_current(self) -> bool:
        """Whether the keys that are in the file now apply."""
        self.current()
        return self._is_current

    def current(self) -> tuple[Key, ...]:
        if (seen := state_of(self._path)) != self._seen and seen is not None:
            self._seen = seen
            self._is_current = False
            try:
                self._keys = self._read()
                self._is_current = True
                log.info("token keys applied", extra={"detail": str(self._path)})
            except KeysError as error:
                log.error("token keys rejected, the previous ones stay applied", extra={"detail": str(error)})
        return self._keys

    def is_due(self, key_id: str | None) -> bool:
        """Whether `refresh` may find keys that `current` does not have."""
        return False

    async def refresh(self) -> None:
        return

    def _read(self) -> tuple[Key, ...]:
        try:
            with self._path.open("rb") as file:
                return parse_keys(file.read(MAX_BYTES), str(self._path))
        except OSError as error:
            raise KeysError(f"{self._path} cannot be read: {error.strerror}; name a readable file") from None


class EndpointKeys:
    """Those of an endpoint. While it cannot be reached, the previous ones stay, and no client waits for one of them."""

    def __init__(
        self, url: str, refresh_s: float, fetch: Callable[[str], bytes] | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._url = url
        self._refresh_s = refresh_s
        self._fetch = fetch or fetch_keys
        self._now = now
        self._keys: tuple[Key, ...] = ()
        self.are_current = True  # whether the endpoint has responded with usable ones, the last time
        self._asked_at = float("-inf")
        self._turn = asyncio.Lock()
        self._refreshing: asyncio.Task[None] | None = None  # in the background

    def current(self) -> tuple[Key, ...]:
        """The keys as they are known. Where they are old, they are asked for in the background."""
        is_idle = self._refreshing is None or self._refreshing.done()
        if self._keys and is_idle and self._now() - self._asked_at >= self._refresh_s:
            self._refreshing = asyncio.get_running_loop().create_task(self.refresh(), name="ask for the keys of tokens")
        return self._keys

    def is_due(self, key_id: str | None) -> bool:
        """Whether `refresh` may find a key that `current` does not have."""
        if any(key_id in (None, key.key_id) for key in self._keys):
            return False
        return self._now() - self._asked_at >= (UNKNOWN_KEY_S if self._keys else RETRY_S)

    async def refresh(self) -> None:
        """Ask for the keys again. One request serves all who wait."""
        begun = self._now()
        async with self._turn:
            if self._asked_at >= begun:
                return
            self._asked_at = self._now()
            try:
                async with asyncio.timeout(TIMEOUT_S):
                    self._keys = parse_keys(await asyncio.to_thread(self._fetch, self._url), self._url)
                self.are_current = True
            except (KeysError, OSError) as error:
                self.are_current = False
                log.error("token keys not refreshed, the previous ones stay applied", extra={"detail": _text(error)})


def fetch_keys(url: str) -> bytes:
    """What the endpoint responds with. Blocks; raises OSError."""
    client = HttpClient([url], TIMEOUT_S, MAX_BYTES)
    try:
        response = client.request("GET", "", {"Accept": "application/json"})
    finally:
        client.close()
    if response.status != 200:
        raise OSError(f"{url} responds with {response.status}")
    return response.body


def _text(error: Exception) -> str:
    return str(error) or type(error).__name__
