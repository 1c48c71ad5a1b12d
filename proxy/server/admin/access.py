"""Who may request pages of the admin port, beside the check of the host: whoever has the token."""

from __future__ import annotations

import hmac
import logging
from pathlib import Path

from kafka_sidecar.proxy.config.reload import state_of

log = logging.getLogger(__name__)

OPEN = ("/livez", "/readyz")  # for probes, which have no token; `/readyz?verbose` is not among them
MIN_CHARS, MAX_BYTES = 16, 4096


class TokenError(ValueError):
    """The file cannot be used; one line with the remedy, without the token."""


class AdminToken:
    """The token of a file, read again when the file changes; where it cannot be used, the previous one stays."""

    def __init__(self, path: Path) -> None:
        """Raises TokenError."""
        self._path = path
        self._seen = state_of(path)
        self._token = _read(path)

    def allows(self, target: str, authorization: bytes | None) -> bool:
        """Whether a request may have its page. ``target``: path and query."""
        if target in OPEN:
            return True
        kind, _, token = (authorization or b"").partition(b" ")
        return kind.lower() == b"bearer" and hmac.compare_digest(token.strip(), self._current())

    def _current(self) -> bytes:
        if (seen := state_of(self._path)) != self._seen and seen is not None:
            self._seen = seen
            try:
                self._token = _read(self._path)
                log.info("admin token applied", extra={"detail": str(self._path)})
            except TokenError as error:
                log.error("admin token rejected, the previous one stays applied", extra={"detail": str(error)})
        return self._token


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            token = file.read(MAX_BYTES).strip()
    except OSError as error:
        raise TokenError(f"{path} cannot be read: {error.strerror}; name a readable file") from None
    if len(token) < MIN_CHARS or b" " in token or not token.isascii():
        raise TokenError(f"{path} has no token: write at least {MIN_CHARS} ASCII characters without spaces into it")
    return token
