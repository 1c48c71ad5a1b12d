"""The sidecar's credentials at brokers: what each login begins with."""

from __future__ import annotations

import secrets
from typing import Protocol

from kafka_sidecar.proxy.config.sasl import BY_PASSWORD, BrokerSasl, SecretError
from kafka_sidecar.proxy.security.sasl import scram
from kafka_sidecar.proxy.security.sasl.conversation import LoginError, Tokens, plain

USER = ("username", "password")
SHOWN = ("username", "password_file", "jaas_config_file", "token_endpoint", "client_id", "token_file", "token_provider")


class Credentials(Protocol):
    """Those of one user or client."""

    @property
    def mechanism(self) -> str: ...

    @property
    def remedy(self) -> str:
        """What a person has to correct if brokers reject them: names settings and files, quotes no secret."""
        ...

    async def tokens(self) -> Tokens:
        """The mechanism's tokens of one login. Raises LoginError."""
        ...


class Password:
    """User and password."""

    def __init__(self, sasl: BrokerSasl) -> None:
        """Raises SecretError."""
        self.mechanism = str(sasl.mechanism)
        self.remedy = _remedy(sasl)
        self._sasl = sasl
        sasl.options(USER)

    async def tokens(self) -> Tokens:
        try:
            options = self._sasl.options(USER)
        except SecretError as error:
            raise LoginError(str(error)) from None
        if self.mechanism == "PLAIN":
            return plain(options["username"], options["password"])
        return scram.client(self.mechanism, options["username"], options["password"], secrets.token_hex(16))


def open_credentials(sasl: BrokerSasl) -> Credentials | None:
    """The credentials of a section; None where it is empty.

    Raises:
        ValueError: a secret cannot be read, or a plug-in not be opened; one line that begins with the setting.
    """
    if sasl.mechanism is None:
        return None
    if sasl.mechanism in BY_PASSWORD:
        return Password(sasl)
    from kafka_sidecar.proxy.security.sasl.tokens import Bearer  # only then: it imports plug-ins and HTTP

    return Bearer(sasl, _remedy(sasl))


def _remedy(sasl: BrokerSasl) -> str:
    section = ".".join(map(str, sasl.at))
    shown = ", ".join(f"{name} {value}" for name in SHOWN if (value := getattr(sasl, name)) is not None)
    return f"correct {section} ({shown or 'its environment variables'}), or what the brokers accept"
