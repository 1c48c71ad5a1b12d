"""The passwords with which users have logged in since the process was started: to verify one again takes microseconds.

None is kept: of each there is a hash with a key that only this process has, as long as the user's own keys stay.
"""

from __future__ import annotations

import hmac
import secrets

from kafka_sidecar.proxy.security.sasl.users import Verifier


class KnownPasswords:
    """The last one of each user."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)
        self._known: dict[str, bytes] = {}  # by name: there are not more than users

    def has(self, name: str, verifier: Verifier, password: str) -> bool:
        known = self._known.get(name)
        return known is not None and hmac.compare_digest(known, self._hash(name, verifier, password))

    def add(self, name: str, verifier: Verifier, password: str) -> None:
        """The user has logged in with it."""
        self._known[name] = self._hash(name, verifier, password)

    def _hash(self, name: str, verifier: Verifier, password: str) -> bytes:
        return hmac.digest(self._key, b"\0".join((verifier.stored_key, name.encode(), password.encode())), "sha256")
