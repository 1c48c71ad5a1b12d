"""The sections of TLS: how clients connect to the sidecar, and how the sidecar connects to brokers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, ValidationInfo, model_validator
from pydantic.json_schema import WithJsonSchema
from pydantic_core import PydanticCustomError

from kafka_sidecar.plugins.settings import VariableText
from kafka_sidecar.plugins.units import Duration
from kafka_sidecar.proxy.config.mistakes import INLINE_SECRET, Location
from kafka_sidecar.proxy.config.principal_rules import PATTERN, parse_rules
from kafka_sidecar.proxy.config.types import Section, duration_field, rename

Version = Literal["TLSv1.2", "TLSv1.3"]

# Kafka's names, accepted in the sections and, for brokers, at the top of the file.
KAFKA_NAMES: Mapping[str, str] = {
    "ssl.cipher.suites": "ciphers",
    "ssl.client.auth": "client_certificates",
    "ssl.enabled.protocols": "protocols",
    "ssl.endpoint.identification.algorithm": "verify_hostname",
    "ssl.key.password": "key_password",
    "ssl.keystore.location": "certificate",
    "ssl.keystore.password": "key_password",
    "ssl.principal.mapping.rules": "principal_rules",
    "ssl.truststore.location": "ca",
    "ssl.truststore.password": "ca_password",
}
CLIENT_NAMES = ("ssl.client.auth", "ssl.principal.mapping.rules")  # of listeners alone
STORE_TYPES = ("ssl.keystore.type", "ssl.truststore.type")  # the files say themselves which type they are
STORES = "([Pp][Ee][Mm]|[Pp][Kk][Cc][Ss]12)"
VERSIONS: tuple[Version, ...] = ("TLSv1.2", "TLSv1.3")
ALGORITHMS = {"https": True, "": False, "true": True, "false": False}
CONVERT = (
    "convert the store: keytool -importkeystore -srckeystore OLD -destkeystore NEW.p12 -deststoretype PKCS12, "
    "and name the new file"
)


def _check_rules(value: str) -> str:
    parse_rules(value)
    return value


def _reject_empty(value: object) -> object:
    if value == "":
        raise ValueError("write the path of a file")
    return value


def _relative_to_the_file(value: Path, info: ValidationInfo) -> Path:
    folder: Path = (info.context or {}).get("folder", Path())
    return folder / value


def split_names(value: object) -> object:
    """Kafka's lists are text with commas."""
    return [name.strip() for name in value.split(",") if name.strip()] if isinstance(value, str) else value


def _read_algorithm(value: object) -> object:
    """Kafka's `ssl.endpoint.identification.algorithm`."""
    if isinstance(value, str) and value in ALGORITHMS:
        return ALGORITHMS[value]
    if not isinstance(value, bool):
        raise ValueError("write true or false")
    return value


def _check_protocols(value: list[str]) -> list[str]:
    if not value:
        raise ValueError("write at least one of TLSv1.2, TLSv1.3")
    return value


def reject_inline(values: Mapping[str, Any], secrets: Mapping[str, str]) -> None:
    """Raises an error of pydantic's where the file itself has a secret.

    Args:
        values: of a section.
        secrets: the keys of those that are secret, and the name of the setting of each.
    """
    for key, name in secrets.items():
        if not isinstance(values.get(key), VariableText | SecretStr | None):
            text = "{key}: a secret is not written into this file; set {name}_file to a file with it"
            raise PydanticCustomError(INLINE_SECRET, text, {"key": key, "name": name})


_NAMES: dict[str, Any] = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
_VERSION = r"TLSv1\.[23]"
_VERSIONS: dict[str, Any] = {
    "anyOf": [
        {"type": "string", "pattern": rf"^\s*{_VERSION}\s*(,\s*{_VERSION}\s*)*$"},
        {"type": "array", "minItems": 1, "items": {"type": "string", "pattern": f"^{_VERSION}$"}},
    ]
}
_VERIFICATION: dict[str, Any] = {"anyOf": [{"type": "boolean"}, {"type": "string", "enum": [*ALGORITHMS]}]}
_FILE = {"type": "string", "format": "path", "minLength": 1}
File = Annotated[Path, BeforeValidator(_reject_empty), AfterValidator(_relative_to_the_file), WithJsonSchema(_FILE)]
Names = Annotated[list[str], BeforeValidator(split_names), WithJsonSchema(_NAMES)]
Protocols = Annotated[
    list[Version],
    BeforeValidator(split_names),
    AfterValidator(_check_protocols),
    WithJsonSchema(_VERSIONS),
]
Verification = Annotated[bool, BeforeValidator(_read_algorithm), WithJsonSchema(_VERIFICATION)]
# In an environment variable only: the configuration file is a ConfigMap, or in a repository.
Password = Annotated[SecretStr, WithJsonSchema({"not": {}})]
PASSWORDS = ("key_password", "ca_password")


class Tls(Section):
    """What both sides have."""

    at: ClassVar[Location]

    certificate: File | None = None
    """File with the certificate chain, PEM or PKCS12. Relative to this file. Kafka: `ssl.keystore.location`."""
    key: File | None = None
    """PEM file with the private key. Default: it is in the file of `certificate`."""
    key_password: Password | None = None
    """Password of the private key or PKCS12 file, in an environment variable only. Kafka: `ssl.key.password`."""
    key_password_file: File | None = None
    """File with that password."""
    ca: File | None = None
    """File with the certificates that are trusted, PEM or PKCS12. Kafka: `ssl.truststore.location`."""
    ca_password: Password | None = None
    """Password of a PKCS12 file, in an environment variable only. Kafka: `ssl.truststore.password`."""
    ca_password_file: File | None = None
    """File with that password."""
    protocols: Protocols = Field(default_factory=lambda: [*VERSIONS])
    """Versions of TLS that are accepted. Kafka: `ssl.enabled.protocols`."""
    ciphers: Names = []  # noqa: RUF012 - pydantic copies it
    """Cipher suites of TLS 1.2, by OpenSSL's or Kafka's names. Kafka: `ssl.cipher.suites`. Default: OpenSSL's."""

    @model_validator(mode="before")
    @classmethod
    def _accept_kafka_names(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        for name in STORE_TYPES:
            if values.get(name) is not None and not re.fullmatch(STORES, str(values[name])):
                raise ValueError(f"{name}: {values[name]} cannot be read; {CONVERT}")
        known = {kafka: name for kafka, name in KAFKA_NAMES.items() if kafka in values and name in cls.model_fields}
        meant = {str(key): known.get(str(key), str(key)) for key in values}
        reject_inline(values, {key: name for key, name in meant.items() if name in PASSWORDS})
        return rename({key: value for key, value in values.items() if key not in STORE_TYPES}, known)

    @property
    def is_set(self) -> bool:
        """Whether any key has a value."""
        return bool(self.model_fields_set)

    @property
    def files(self) -> list[Path]:
        """All files that are read."""
        named = (self.certificate, self.key, self.key_password_file, self.ca, self.ca_password_file)
        return [path for path in named if path is not None]


class ListenerTls(Tls):
    """TLS of a port that the sidecar opens: with `certificate` it accepts nothing else."""

    client_certificates: Literal["none", "requested", "required"] = "none"
    """Whether clients present a certificate. Kafka: `ssl.client.auth`."""

    @property
    def is_used(self) -> bool:
        return self.certificate is not None


class AdminTls(ListenerTls):
    """TLS of the admin port."""

    at: ClassVar[Location] = ("admin", "tls")


class ClientTls(ListenerTls):
    """TLS of the listeners for clients."""

    at: ClassVar[Location] = ("clients", "tls")

    principal_rules: Annotated[
        str, AfterValidator(_check_rules), WithJsonSchema({"type": "string", "pattern": PATTERN})
    ] = "DEFAULT"
    """From the subject of a certificate to a user's name. Kafka: `ssl.principal.mapping.rules`. Default: `DEFAULT`."""
    handshake_timeout: Duration = duration_field("10s", gt=0)
    """Time limit of a handshake, from the connection on."""


class BrokerTls(Tls):
    """TLS of connections to brokers."""

    at: ClassVar[Location] = ("brokers", "tls")

    verify_hostname: Verification = True
    """Whether certificates must name the broker's host. Kafka: `ssl.endpoint.identification.algorithm`."""
