"""The section of how clients log in to the sidecar."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args

from pydantic import BeforeValidator, model_validator
from pydantic.json_schema import WithJsonSchema

from kafka_sidecar.plugins.units import Duration
from kafka_sidecar.proxy.config.sasl import BY_PASSWORD
from kafka_sidecar.proxy.config.sections import Section
from kafka_sidecar.proxy.config.tls import File, split_names
from kafka_sidecar.proxy.config.types import duration_field

Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
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
}


class ClientSasl(Section):
    """How clients log in to the sidecar itself. Default: they do not."""

    mechanisms: Mechanisms = []  # noqa: RUF012 - pydantic copies it
    """The SASL mechanisms that clients may use; one of them they must. Kafka: `sasl.enabled.mechanisms`."""
    users_file: File | None = None
    """File of the users of `PLAIN` and `SCRAM-SHA-*`, with lines of `kafka-sidecar scram-user`."""
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
        return self
