"""The sections of logins: of the sidecar to brokers, and of clients to the sidecar.

Secrets come from the environment or a file, never from the configuration file, and are never shown. Files are read for
each login, so that a secret may be replaced while the sidecar runs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import BeforeValidator, Field, SecretStr, model_validator
from pydantic.json_schema import WithJsonSchema

from kafka_sidecar.plugins.settings import VariableText
from kafka_sidecar.plugins.units import Duration
from kafka_sidecar.proxy.config.mistakes import Location
from kafka_sidecar.proxy.config.tls import File, Names, Password, reject_inline, split_names
from kafka_sidecar.proxy.config.types import PrincipalPattern, Section, duration_field, rename

MODULES: Mapping[str, tuple[str, ...]] = {  # and the mechanisms that each is for
    "org.apache.kafka.common.security.plain.PlainLoginModule": ("PLAIN",),
    "org.apache.kafka.common.security.scram.ScramLoginModule": ("SCRAM-SHA-256", "SCRAM-SHA-512"),
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule": ("OAUTHBEARER",),
}
SECRET_OPTIONS = ("password", "clientSecret")
# Kafka's name of an option to that of the setting.
OPTIONS: Mapping[str, str] = {
    "username": "username",
    "password": "password",
    "clientId": "client_id",
    "clientSecret": "client_secret",
    "scope": "scope",
}
_VALUE = r"""(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;"']+))"""
_OPTION = re.compile(rf"\s+([\w.]+)\s*=\s*{_VALUE}")
_WHOLE = re.compile(rf"\s*([\w.]+)\s+(?:required|requisite|sufficient|optional)((?:\s+[\w.]+\s*=\s*{_VALUE})*)\s*;\s*")
EXAMPLE = 'write "org.apache.kafka.common.security.plain.PlainLoginModule required username=... password=...;"'


def parse_jaas(text: str, mechanism: str, setting: str = "jaas_config") -> dict[str, str]:
    """The options of the login module, by the names of our settings. Raises SecretError, which quotes no value.

    >>> parse_jaas('org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password=b;', "PLAIN")
    {'username': 'a', 'password': 'b'}
    """
    found = _WHOLE.fullmatch(text)
    if found is None:
        raise SecretError(f"{setting}: is no login module with its options and a semicolon; {EXAMPLE}")
    module = found[1]
    if module not in MODULES:
        raise SecretError(f"{setting}: {module} is not supported; use one of {', '.join(MODULES)}")
    if mechanism not in MODULES[module]:
        raise SecretError(
            f"{setting}: {module} is not for the mechanism {mechanism}, but for {' and '.join(MODULES[module])}"
        )
    options = {name: _unquoted(*values) for name, *values in _OPTION.findall(found[2])}
    if unknown := options.keys() - OPTIONS:
        raise SecretError(f"{setting}: the option {min(unknown)} is not supported; use {', '.join(OPTIONS)}")
    return {OPTIONS[name]: value for name, value in options.items()}


def _unquoted(double: str, single: str, bare: str) -> str:
    return re.sub(r"\\(.)", r"\1", double or single) or bare


MAX_SECRET_BYTES = 64 << 10


class SecretError(ValueError):
    """A secret cannot be read; one line that names its setting, where it should be, and the remedy."""


def read_secret(value: SecretStr | None, file: Path | None, setting: str) -> str | None:
    """The secret; None where neither is given. Raises SecretError."""
    if value is not None:
        return value.get_secret_value()
    if file is None:
        return None
    try:
        with file.open("rb") as opened:
            text = opened.read(MAX_SECRET_BYTES).decode().rstrip("\r\n")
    except OSError as error:
        raise SecretError(f"{setting}_file: {file} cannot be read: {error.strerror}; mount the secret there") from None
    except UnicodeDecodeError:
        raise SecretError(f"{setting}_file: {file} is not text in UTF-8; write the secret as text") from None
    if not text:
        raise SecretError(f"{setting}_file: {file} is empty; write the secret into it")
    return text


Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]
BY_PASSWORD = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
# Kafka's names, accepted in the section and at the top of the file.
KAFKA_NAMES: Mapping[str, str] = {
    "sasl.mechanism": "mechanism",
    "sasl.jaas.config": "jaas_config",
    "sasl.oauthbearer.token.endpoint.url": "token_endpoint",
    "sasl.oauthbearer.client.credentials.client.id": "client_id",
    "sasl.oauthbearer.client.credentials.client.secret": "client_secret",
    "sasl.oauthbearer.scope": "scope",
}
SECRETS = ("password", "client_secret")
_SECRET_OPTION = re.compile(rf"\b({'|'.join(SECRET_OPTIONS)})\s*=")
# Without its secrets it may be in the configuration file.
JaasConfig = Annotated[SecretStr, WithJsonSchema({"type": "string", "not": {"pattern": _SECRET_OPTION.pattern}})]


class BrokerSasl(Section):
    """How the sidecar logs in to brokers, for its clients and for itself. Default: clients log in through it."""

    at: ClassVar[Location] = ("brokers", "sasl")

    mechanism: Mechanism | None = None
    """The SASL mechanism. Kafka: `sasl.mechanism`."""
    username: str | None = Field(default=None, min_length=1)
    """The user, with `PLAIN` and `SCRAM-SHA-*`."""
    password: Password | None = None
    """The user's password, in an environment variable only."""
    password_file: File | None = None
    """File with that password, read for each login."""
    jaas_config: JaasConfig | None = None
    """Kafka's `sasl.jaas.config`: user, or client's id; with their secrets in an environment variable only."""
    jaas_config_file: File | None = None
    """File with that text, read for each login."""
    token_endpoint: str | None = Field(default=None, pattern=r"^https?://[^/?#@]+([/?#]|$)")
    """Where tokens are requested, with `OAUTHBEARER`. Kafka: `sasl.oauthbearer.token.endpoint.url`."""
    client_id: str | None = Field(default=None, min_length=1)
    """The client's id there. Kafka: `sasl.oauthbearer.client.credentials.client.id`."""
    client_secret: Password | None = None
    """Its secret, in a variable only. Kafka: `sasl.oauthbearer.client.credentials.client.secret`."""
    client_secret_file: File | None = None
    """File with that secret, read for each token."""
    scope: str | None = Field(default=None, min_length=1)
    """The scope of tokens that are requested. Kafka: `sasl.oauthbearer.scope`."""
    token_file: File | None = None
    """File with a token for `OAUTHBEARER`, read for each login; something else replaces it before it expires."""
    token_provider: str | None = Field(default=None, min_length=1)
    """Plug-in that provides tokens for `OAUTHBEARER`: its name, or `module:Class`."""
    token_settings: dict[str, Any] = Field(default_factory=dict)
    """Settings of that plug-in."""

    @model_validator(mode="before")
    @classmethod
    def _accept_kafka_names(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        renamed = rename(values, KAFKA_NAMES)
        reject_inline(renamed, {name: name for name in SECRETS})
        jaas = renamed.get("jaas_config")
        if isinstance(jaas, VariableText) or not isinstance(jaas, str) or _SECRET_OPTION.search(jaas):
            reject_inline(renamed, {"jaas_config": "jaas_config"})
        return renamed

    @model_validator(mode="after")
    def _check(self) -> BrokerSasl:
        for name in (*SECRETS, "jaas_config"):
            if getattr(self, name) is not None and getattr(self, f"{name}_file") is not None:
                raise ValueError(f"{name} and {name}_file are both set; remove one of them")
        given = {name.removesuffix("_file") for name in BrokerSasl.model_fields if getattr(self, name)}
        if self.mechanism is None:
            if given:
                raise ValueError(f"{min(given)} is set without mechanism: add it, such as SCRAM-SHA-512")
        elif self.mechanism in BY_PASSWORD:
            self._check_password(given)
        else:
            self._check_token(given)
        if self.mechanism is not None and self.jaas_config is not None:
            parse_jaas(self.jaas_config.get_secret_value(), self.mechanism)
        return self

    def _check_password(self, given: set[str]) -> None:
        if other := given - {"mechanism", "username", "password", "jaas_config"}:
            raise ValueError(f"{min(other)} is not for {self.mechanism}: remove it, or set mechanism to OAUTHBEARER")
        if "jaas_config" not in given and not {"username", "password"} <= given:
            raise ValueError(f"{self.mechanism} needs username, and password or password_file")

    def _check_token(self, given: set[str]) -> None:
        if other := given & {"username", "password"}:
            raise ValueError(f"{min(other)} is not for OAUTHBEARER: remove it, or set another mechanism")
        if len(given & {"token_endpoint", "token", "token_provider"}) != 1:
            raise ValueError("OAUTHBEARER needs one of token_endpoint, token_file and token_provider")
        if "token_endpoint" in given and "jaas_config" not in given and not {"client_id", "client_secret"} <= given:
            raise ValueError("token_endpoint needs client_id, and client_secret or client_secret_file")

    def options(self, needed: tuple[str, ...]) -> dict[str, str]:
        """User and password, or a client's id, secret and scope: as they are now. Raises SecretError."""
        section = ".".join(map(str, self.at))
        found: dict[str, str] = {}
        jaas = read_secret(self.jaas_config, self.jaas_config_file, f"{section}.jaas_config")
        if jaas is not None:
            found = parse_jaas(jaas, str(self.mechanism), f"{section}.jaas_config")
        found |= {name: text for name in ("username", "client_id", "scope") if (text := getattr(self, name))}
        for name in SECRETS:
            text = read_secret(getattr(self, name), getattr(self, f"{name}_file"), f"{section}.{name}")
            if text is not None:
                found[name] = text
        for name in needed:
            if name not in found:
                raise SecretError(f"{section}: {name} is missing: set it, or add it to jaas_config")
        return found


class _MappedSasl(BrokerSasl):
    """The same for some clients; its messages name that section."""

    at: ClassVar[Location] = ("brokers", "logins")


class PrincipalLogin(Section):
    """A user of the brokers for some clients, who have logged in to the sidecar or presented a certificate."""

    principals: list[PrincipalPattern] = Field(min_length=1)
    """The clients' principals, with `*` and `?`. The first entry that has one applies."""
    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
    """The SASL mechanism of their connections to brokers."""
    username: str = Field(min_length=1)
    """The user there."""
    password_file: File
    """File with that user's password, read for each login."""

    @property
    def sasl(self) -> BrokerSasl:
        return _MappedSasl(mechanism=self.mechanism, username=self.username, password_file=self.password_file)


_MECHANISM = f"({'|'.join(get_args(Mechanism))})"
_MECHANISMS: dict[str, Any] = {
    "anyOf": [
        {"type": "string", "pattern": rf"^\s*({_MECHANISM}\s*(,\s*{_MECHANISM}\s*)*)?$"},
        {"type": "array", "items": {"enum": [*get_args(Mechanism)]}},
    ]
}
Mechanisms = Annotated[list[Mechanism], BeforeValidator(split_names), WithJsonSchema(_MECHANISMS)]
# Kafka's names, accepted in the section.
CLIENT_SASL_NAMES: Mapping[str, str] = {
    "sasl.enabled.mechanisms": "mechanisms",
    "sasl.oauthbearer.jwks.endpoint.url": "jwks_endpoint",
    "sasl.oauthbearer.expected.audience": "expected_audience",
    "sasl.oauthbearer.expected.issuer": "expected_issuer",
    "sasl.oauthbearer.sub.claim.name": "name_claim",
}
FOR_TOKENS = ("jwks_file", "jwks_endpoint", "expected_audience", "expected_issuer")


class ClientSasl(Section):
    """How clients log in to the sidecar itself. Default: they do not."""

    mechanisms: Mechanisms = []  # noqa: RUF012 - pydantic copies it
    """The SASL mechanisms that clients may use; one of them they must. Kafka: `sasl.enabled.mechanisms`."""
    users_file: File | None = None
    """File of the users of `PLAIN` and `SCRAM-SHA-*`, with lines of `kafka-sidecar scram-user`."""
    jwks_file: File | None = None
    """File with the keys of `OAUTHBEARER` tokens, a JWK set (RFC 7517), read again when it changes."""
    jwks_endpoint: str | None = Field(default=None, pattern=r"^https?://[^/?#@]+([/?#]|$)")
    """Where these keys are requested instead. Kafka: `sasl.oauthbearer.jwks.endpoint.url`."""
    jwks_refresh: Duration = duration_field("1h", gt=0)
    """How often they are requested. Kafka: `sasl.oauthbearer.jwks.endpoint.refresh.ms`."""
    expected_audience: Names = []  # noqa: RUF012
    """Tokens have to be for one of these (`aud`). Kafka: `sasl.oauthbearer.expected.audience`. Default: any."""
    expected_issuer: str | None = Field(default=None, min_length=1)
    """Tokens have to be from this issuer (`iss`). Kafka: `sasl.oauthbearer.expected.issuer`. Default: any."""
    name_claim: str = Field(default="sub", min_length=1)
    """The claim of a token that names the client. Kafka: `sasl.oauthbearer.sub.claim.name`."""
    clock_skew: Duration = duration_field("30s")
    """How far clocks may differ. Kafka: `sasl.oauthbearer.clock.skew.seconds`."""
    timeout: Duration = duration_field("10s", gt=0)
    """Time limit of a login, from the connection on."""

    @model_validator(mode="before")
    @classmethod
    def _accept_kafka_names(cls, values: Any) -> Any:
        return rename(values, CLIENT_SASL_NAMES)

    @model_validator(mode="after")
    def _check(self) -> ClientSasl:
        by_password = [name for name in self.mechanisms if name in BY_PASSWORD]
        if by_password and self.users_file is None:
            raise ValueError(f"users_file is missing: {by_password[0]} needs it")
        if self.users_file is not None and not by_password:
            raise ValueError("users_file is set, but mechanisms has neither PLAIN nor SCRAM-SHA-*: add one")
        if "OAUTHBEARER" in self.mechanisms:
            if (self.jwks_file is None) == (self.jwks_endpoint is None):
                raise ValueError("OAUTHBEARER needs jwks_file or jwks_endpoint, one of them")
        elif given := [name for name in FOR_TOKENS if getattr(self, name)]:
            raise ValueError(f"{given[0]} is set, but mechanisms has no OAUTHBEARER: add it")
        return self
