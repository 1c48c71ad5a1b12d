"""Which user of the brokers the sidecar is for which of its clients."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fnmatch import fnmatchcase

from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.config.mistakes import ConfigError
from kafka_sidecar.proxy.security.sasl.credentials import Password
from kafka_sidecar.proxy.security.sasl.logins import Logins

Entry = tuple[Sequence[str], Logins]  # patterns of principals, and the login for them


class PrincipalLogins:
    """The first entry whose pattern fits a client's principal, or the sidecar's own login."""

    def __init__(self, own: Logins | None, entries: Sequence[Entry]) -> None:
        self._own = own
        self._entries = entries

    def of(self, principal: str | None) -> Logins | None:
        """For a connection of this client; None: it logs in itself, if anybody does."""
        if principal is not None:
            for patterns, logins in self._entries:
                if any(fnmatchcase(principal, pattern) for pattern in patterns):
                    return logins
        return self._own


def open_principal_logins(config: Config, own: Logins | None, counts: Counter[str]) -> PrincipalLogins:
    """Those of a configuration. Raises ConfigError: a password cannot be read."""
    try:
        return PrincipalLogins(
            own, [(one.principals, Logins(Password(one.sasl), counts)) for one in config.brokers.logins]
        )
    except ValueError as error:
        raise ConfigError(str(error)) from error
