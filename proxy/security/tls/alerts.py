"""The alert that says why a handshake failed, for the client: event loops close the connection without sending it."""

from __future__ import annotations

import ssl
from typing import Any


class _Handshake(ssl.SSLObject):
    """Adds the alert that OpenSSL has written to the error of a handshake."""

    outgoing: ssl.MemoryBIO

    def do_handshake(self) -> None:
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as error:
            error.alert = self.outgoing.read()  # type: ignore[attr-defined]
            raise


class AlertingContext(ssl.SSLContext):
    """A context whose failed handshakes have their `alert_of`."""

    sslobject_class = _Handshake

    def wrap_bio(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, *args: Any, **more: Any) -> ssl.SSLObject:
        wrapped = super().wrap_bio(incoming, outgoing, *args, **more)
        assert isinstance(wrapped, _Handshake)
        wrapped.outgoing = outgoing
        return wrapped


def alert_of(error: Exception) -> bytes:
    """The bytes to send before the connection is closed; none if TLS has not failed."""
    alert: bytes = getattr(error, "alert", b"")
    return alert
