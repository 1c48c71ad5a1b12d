"""The logins of clients to this sidecar, as the configuration says: users from a file that is read when it changes.

Clients that log in although the sidecar does it for them are answered as brokers do where no login is expected.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kafka_sidecar.codec.apis import ApiKey, ErrorCode
from kafka_sidecar.codec.envelope import encode_response
from kafka_sidecar.codec.message import Message
from kafka_sidecar.codec.messages.sasl_authenticate import SaslAuthenticateResponse
from kafka_sidecar.codec.messages.sasl_handshake import SaslHandshakeResponse
from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.config.mistakes import ConfigError
from kafka_sidecar.proxy.config.reload import state_of
from kafka_sidecar.proxy.config.sasl import ClientSasl
from kafka_sidecar.proxy.relay.exchange import Client
from kafka_sidecar.proxy.security.sasl.client_login import ApiVersionsOf, ClientLogin
from kafka_sidecar.proxy.security.sasl.users import Users, UsersError, read_users
from kafka_sidecar.proxy.security.sasl.verification import (
    KnownPasswords,
    Verification,
    is_known,
    oauthbearer,
    plain,
    scram,
)
from kafka_sidecar.proxy.telemetry.log_limiter import LogLimiter
from kafka_sidecar.proxy.telemetry.metrics import Family, gauge

if TYPE_CHECKING:
    from kafka_sidecar.proxy.security.sasl.jwt_tokens import TokenVerifier

log = logging.getLogger(__name__)
LOG_EVERY_S = 10.0
REMEDY = "the sidecar logs in for its clients (brokers.sasl): set their security.protocol to PLAINTEXT, or SSL"
RESPONSES: dict[int, Message] = {
    ApiKey.SASL_HANDSHAKE: SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE),
    ApiKey.SASL_AUTHENTICATE: SaslAuthenticateResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=REMEDY),
}

# The sidecar's own response to requests of this API and version: correlation id -> frame; None: it has none.
Answer = Callable[[int, int], Callable[[int], bytes] | None]


class ClientLogins:
    """What each client has to pass."""

    def __init__(self, sasl: ClientSasl, api_versions: ApiVersionsOf) -> None:
        """Raises UsersError."""
        self.timeout_s = sasl.timeout
        self._api_versions = api_versions
        self._file: Path | None = sasl.users_file
        self._seen = state_of(sasl.users_file) if sasl.users_file is not None else None
        self._users: Users = read_users(sasl.users_file) if sasl.users_file is not None else {}
        self._known = KnownPasswords()
        self._users_apply = True  # those that are in the file now
        self._tokens = _open_tokens(sasl) if "OAUTHBEARER" in sasl.mechanisms else None
        self._mechanisms: Mapping[str, Callable[[], Verification]] = {
            name: partial(self._verification, name) for name in sasl.mechanisms
        }

    def begin(self, client: Client) -> ClientLogin:
        """That of a client that has connected."""
        return ClientLogin(client, self._mechanisms, self._api_versions, self._tokens, knows=self._knows)

    def _knows(self, token: bytes) -> bool:
        return is_known(token, self._users, self._known)

    def _verification(self, mechanism: str) -> Verification:
        if mechanism == "OAUTHBEARER":
            assert self._tokens is not None
            return oauthbearer(self._tokens.verify)
        users = self._current_users()
        return plain(users, self._known) if mechanism == "PLAIN" else scram(mechanism, users, secrets.token_hex(16))

    def _current_users(self) -> Users:
        """Those of the file; the previous ones where it cannot be used."""
        assert self._file is not None
        if (seen := state_of(self._file)) != self._seen and seen is not None:
            self._seen = seen
            try:
                self._users_apply = False
                self._users = read_users(self._file)
                self._users_apply = True
                log.info("users applied", extra={"detail": str(self._file)})
            except UsersError as error:
                log.error("users rejected, the previous ones stay applied", extra={"detail": str(error)})
        return self._users

    def families(self) -> Iterable[Family]:
        """Whether what clients are verified with is what the operator has written last; its file is looked at."""
        sources = {}
        if self._file is not None:
            self._current_users()
            sources["users"] = int(self._users_apply)
        if self._tokens is not None:
            sources["token_keys"] = int(self._tokens.keys_apply())
        yield family_of_reloads(sources)


def family_of_reloads(sources: Mapping[str, int]) -> Family:
    """The metric of users and keys, by where they are from."""
    about = "1 if the users or keys that are there now apply, 0 if changed ones were rejected"
    return gauge("client_logins_last_reload_successful", about, sources, "source")


def _open_tokens(sasl: ClientSasl) -> TokenVerifier:
    """Raises KeysError, ConfigError."""
    try:
        from kafka_sidecar.proxy.security.sasl.jwt_tokens import EndpointKeys, FileKeys, TokenRules, TokenVerifier
    except ImportError:
        raise ConfigError(
            "clients.sasl.mechanisms: OAUTHBEARER needs the extra jwt: in a clone, pip install '.[jwt]'"
        ) from None
    rules = TokenRules(tuple(sasl.expected_audience), sasl.expected_issuer, sasl.name_claim, sasl.clock_skew)
    if sasl.jwks_file is not None:
        return TokenVerifier(FileKeys(sasl.jwks_file), rules)
    assert sasl.jwks_endpoint is not None
    return TokenVerifier(EndpointKeys(sasl.jwks_endpoint, sasl.jwks_refresh), rules)


def open_client_logins(config: Config, api_versions: ApiVersionsOf) -> ClientLogins | None:
    """None where clients do not log in to the sidecar. Raises ConfigError."""
    sasl = config.clients.sasl
    if not sasl.mechanisms:
        return None
    try:
        return ClientLogins(sasl, api_versions)
    except UsersError as error:
        raise ConfigError(f"clients.sasl.users_file: {error}") from error
    except ValueError as error:  # KeysError
        raise ConfigError(f"clients.sasl.jwks_file: {error}") from error


def reject_client_logins(answer: Answer) -> Answer:
    """The same, with errors for clients that log in."""
    lines = LogLimiter(LOG_EVERY_S, time.monotonic)

    def reject(key: int, version: int) -> Callable[[int], bytes] | None:
        response = RESPONSES.get(key)
        return answer(key, version) if response is None else partial(_reject, response, version, lines)

    return reject


def _reject(response: Message, version: int, lines: LogLimiter, correlation_id: int) -> bytes:
    if (suppressed := lines.due(("client logs in",))) is not None:
        log.warning("client logs in", extra={"detail": REMEDY, "suppressed": suppressed or None})
    return encode_response(response, version, correlation_id)
