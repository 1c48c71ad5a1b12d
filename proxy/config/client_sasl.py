"""The section of how clients log in to the sidecar."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args

from pydantic import BeforeValidator, Field, model_validator
from pydantic.json_schema import WithJsonSchema

from kafka_sidecar.plugins.units import Duration
from kafka_sidecar.proxy.config.sasl import BY_PASSWORD
from kafka_sidecar.proxy.config.sections import Section
from kafka_sidecar.proxy.config.tls import File, Names, split_names
from kafka_sidecar.proxy.config.types import duration_field

Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]
_MECHANISM = f"({'|'.join(get_args(Mechanism))})"
_MECHANISMS: dict[str, Any] = {
    "anyOf": [
        {"type": "string", "pattern": rf"^\s*({_MECHANISM}\s*(,\s*{_MECHANISM}\s*)*)?$"},
        {"type": "array", "items": {"enum": [*get_args(Mechanism)]}},
    ]
}
Mechanisms = Annotated[list[Mechanism], BeforeValidator(split_names), WithJsonSchema(_MECHANISMS)]
# Kafka's names, accepted in the section.
KAFKA_NAMES: Mapping[str, str] = {
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
        if not isinstance(values, dict):
            return values
        for kafka, name in KAFKA_NAMES.items():
            if kafka in values and name in values:
                raise ValueError(f"{kafka} is the same setting as {name}; remove one of them")
        return {KAFKA_NAMES.get(key, key): value for key, value in values.items()}

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
