"""The section of how the sidecar logs in to brokers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, SecretStr, model_validator
from pydantic.json_schema import WithJsonSchema

from kafka_sidecar.plugins.remedies import VariableText
from kafka_sidecar.proxy.config.jaas import SECRET_OPTIONS, parse_jaas
from kafka_sidecar.proxy.config.mistakes import Location
from kafka_sidecar.proxy.config.secrets import SecretError, read_secret, reject_inline
from kafka_sidecar.proxy.config.sections import Section
from kafka_sidecar.proxy.config.tls import File, Password

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
        for kafka, name in KAFKA_NAMES.items():
            if kafka in values and name in values:
                raise ValueError(f"{kafka} is the same setting as {name}; remove one of them")
        renamed = {KAFKA_NAMES.get(key, key): value for key, value in values.items()}
        reject_inline(renamed, {name: name for name in SECRETS}, cls.at)
        jaas = renamed.get("jaas_config")
        if isinstance(jaas, VariableText) or not isinstance(jaas, str) or _SECRET_OPTION.search(jaas):
            reject_inline(renamed, {"jaas_config": "jaas_config"}, cls.at)
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

    principals: list[str] = Field(min_length=1)
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
