"""Public keys for signatures (RFC 7517): a JWK set, and an endpoint that is asked for it again at times."""

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

from kafka_sidecar.outbound.http import ClientTls, HttpClient

log = logging.getLogger(__name__)

TIMEOUT_S = 4.0  # below the time that a login has, and that the proxy lets a policy fetch
MAX_BYTES = 1 << 20
MIN_RSA_BITS = 2048  # RFC 7518 section 3.3
NO_TLS_FILES = ClientTls()
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
    operations = one.get("key_ops", ["verify"])
    may_verify = isinstance(operations, list) and "verify" in operations and one.get("use", "sig") == "sig"
    if not algorithms or not may_verify:
        return None
    try:
        public = jwt.PyJWK({name: value for name, value in one.items() if name not in PRIVATE}, algorithms[0]).key
    except (jwt.PyJWTError, ValueError, TypeError):
        return None
    if algorithms[0] in RSA and public.key_size < MIN_RSA_BITS:
        return None
    return Key(one.get("kid"), algorithms, public)


PRIVATE = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth"})  # parts of a private key, which is not wanted here


def read_keys(path: Path) -> tuple[Key, ...]:
    """Those of a file. Raises KeysError."""
    try:
        with path.open("rb") as file:
            return parse_keys(file.read(MAX_BYTES), str(path))
    except OSError as error:
        raise KeysError(f"{path} cannot be read: {error.strerror}; name a readable file") from None


class KeyEndpoint:
    """The keys of an endpoint. While it cannot be reached, the previous ones stay.

    What is known may be read in any thread.
    """

    def __init__(
        self, url: str, refresh_s: float, fetch: Callable[[str], bytes] | None = None,
        now: Callable[[], float] = time.monotonic, *, pause_s: float,
    ) -> None:  # fmt: skip
        """
        Args:
            refresh_s: after so long the keys are asked for again.
            pause_s: between two requests because of keys that are not known, whoever names how many.
        """
        self._url = url
        self._refresh_s = refresh_s
        self._pause_s = pause_s
        self._fetch = fetch or fetch_keys
        self._now = now
        self.known: tuple[Key, ...] = ()
        self.are_current = True  # whether the endpoint has responded with usable ones, the last time
        self.requests = 0  # that were made so far
        self.failure = "the keys have not been asked for yet"  # of the last request; one line
        self._asked_at = self._answered_at = float("-inf")
        self._turn = asyncio.Lock()

    @property
    def answered_s_ago(self) -> float:
        """When the last request was over, successful or not."""
        return self._now() - self._answered_at

    @property
    def is_old(self) -> bool:
        """Whether there are keys, and it is time to ask again."""
        return bool(self.known) and self._now() - self._asked_at >= self._refresh_s

    def is_due(self, key_id: str | None) -> bool:
        """Whether `refresh` may find a key that is not known."""
        if any(key_id in (None, key.key_id) for key in self.known):
            return False
        return self.answered_s_ago >= (self._pause_s if self.known else RETRY_S)

    async def refresh(self) -> None:
        """Ask for the keys again. One request serves all who wait."""
        begun = self._now()
        async with self._turn:
            if self._asked_at >= begun:
                return
            self._asked_at = self._now()
            self.requests += 1
            try:
                async with asyncio.timeout(TIMEOUT_S):
                    self.known = parse_keys(await asyncio.to_thread(self._fetch, self._url), self._url)
                self.are_current = True
            except (KeysError, OSError) as error:
                self.are_current = False
                self.failure = str(error) or type(error).__name__
                self.report(self.failure)
            finally:
                self._answered_at = self._now()

    def report(self, failure: str) -> None:
        """Log that a request has failed."""
        log.error("signature keys not refreshed, the previous ones stay applied", extra={"detail": failure})


def fetch_keys(url: str, tls: ClientTls = NO_TLS_FILES) -> bytes:
    """What the endpoint responds with. Blocks; raises OSError."""
    try:
        client = HttpClient([url], TIMEOUT_S, MAX_BYTES, tls)
    except ValueError as error:  # a file of TLS was replaced by one that cannot be used
        raise OSError(str(error)) from None
    try:
        response = client.request("GET", "", {"Accept": "application/json"})
    finally:
        client.close()
    if response.status != 200:
        raise OSError(f"{url} responds with {response.status}")
    return response.body
