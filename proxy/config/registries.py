"""The entries of ``schema_registries:``, and the registries that they open for policies and interceptors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, model_validator
from pydantic.json_schema import WithJsonSchema

from kafka_sidecar.plugins.settings import quote
from kafka_sidecar.plugins.units import Duration, Size
from kafka_sidecar.proxy.config.tls import File, Password, reject_inline, split_names
from kafka_sidecar.proxy.config.types import Section, duration_field

MAX_ADDRESSES = 16
SECRETS = ("password", "client_secret")
TLS = ("ca", "certificate", "key", "key_password_file")
# The first key of a login, and those that it needs or may have.
LOGINS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "username": (("password",), ()),
    "token_file": ((), ()),
    "token_endpoint": (("client_id", "client_secret"), ("scope",)),
}
_HOST = r"(\[[0-9a-fA-F:.%]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?"
_URL = rf"https?://{_HOST}(/[A-Za-z0-9._~%:@!$&'()*+;=/-]*)?"
_HEADER_NAME = re.compile(r"[A-Za-z0-9-]{1,100}")
OWN_HEADERS = {"authorization", "cookie", "host", "content-length", "content-type", "transfer-encoding", "accept"}


def _check_urls(value: list[str]) -> list[str]:
    if not value or len(value) > MAX_ADDRESSES:
        raise ValueError(f"name 1 to {MAX_ADDRESSES} addresses, such as http://registry:8081")
    for url in value:
        if not re.fullmatch(_URL, url) or "@" in url.partition("//")[2].partition("/")[0]:
            raise ValueError(f"write http://host:port or https://host:port in place of {quote(_without_login(url))}")
    return [url.rstrip("/") for url in value]


def _without_login(url: str) -> str:
    return re.sub(r"//[^/]*@", "//", url)


def _check_headers(value: dict[str, str]) -> dict[str, str]:
    for name, text in value.items():
        if not _HEADER_NAME.fullmatch(name) or not (text.isascii() and text.isprintable()):
            raise ValueError(f"{quote(name)} is no header: write letters, digits and -, and one line of text")
        if name.lower() in OWN_HEADERS:
            raise ValueError(f"{name} is not set here: for a login set username, token_file or token_endpoint")
    return value


_URLS: dict[str, Any] = {
    "anyOf": [
        {"type": "string", "pattern": rf"^\s*{_URL}\s*(,\s*{_URL}\s*)*$"},
        {
            "type": "array",
            "minItems": 1,
            "maxItems": MAX_ADDRESSES,
            "items": {"type": "string", "pattern": f"^{_URL}$"},
        },
    ]
}
Urls = Annotated[list[str], BeforeValidator(split_names), AfterValidator(_check_urls), WithJsonSchema(_URLS)]
RegistryName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,64}$")]


class SchemaRegistry(Section):
    """A schema registry that policies and interceptors name."""

    urls: Urls
    """Its addresses; if one does not respond, the next one is asked."""
    kind: Literal["confluent", "apicurio"] = "confluent"
    """Its API: Confluent's, which most registries have, or Apicurio Registry 3's own."""
    context: str | None = Field(default=None, pattern=r"^[A-Za-z0-9_.-]{1,200}$")
    """The context that ids and subjects belong to, such as `.team`. Default: the registry's default context."""
    ca: File | None = None
    """PEM file with the certificates that are trusted. Default: those of the system."""
    certificate: File | None = None
    """PEM file with the certificate chain that is presented."""
    key: File | None = None
    """PEM file with its private key. Default: it is in the file of `certificate`."""
    key_password_file: File | None = None
    """File with the password of that key."""
    username: str | None = Field(default=None, pattern=r"^[^:\r\n]{1,200}$")
    """The user, with HTTP's basic authentication."""
    password: Password | None = None
    """The user's password, in an environment variable only."""
    password_file: File | None = None
    """File with that password, read for each request."""
    token_file: File | None = None
    """File with a bearer token, read for each request; something else replaces it before it expires."""
    token_endpoint: str | None = Field(default=None, pattern=r"^https?://[^/?#@\s]+([/?#]\S*)?$")
    """Where bearer tokens are requested (OAuth 2.0 client credentials)."""
    client_id: str | None = Field(default=None, min_length=1)
    """The client's id there."""
    client_secret: Password | None = None
    """Its secret, in an environment variable only."""
    client_secret_file: File | None = None
    """File with that secret, read for each token."""
    scope: str | None = Field(default=None, min_length=1)
    """The scope of tokens that are requested."""
    headers: Annotated[dict[str, str], AfterValidator(_check_headers)] = Field(default_factory=dict)
    """Further headers of requests, such as `target-sr-cluster`; none that is secret."""
    timeout: Duration = duration_field("2s", gt=0)
    """Time limit of a request to one address, from the connection on to the last byte."""
    max_response: Size = Field(default=4 << 20, ge=1 << 10, le=64 << 20)
    """Maximum size of a response, and of a schema with all that it refers to."""
    cache_size: Size = Field(default=64 << 20, ge=1 << 16)
    """Memory for schemas, about; the least recently used ones make room."""
    subjects_ttl: Duration = duration_field("5m", gt=0)
    """For how long answers about subjects, versions and compatibility hold."""
    missing_ttl: Duration = duration_field("5s", gt=0)
    """For how long it holds that there is no such schema or subject."""
    failure_ttl: Duration = duration_field("5s", gt=0)
    """For how long the registry is not asked again what it has not answered."""
    max_unknown_ids: int = Field(default=20, ge=1, le=1000)
    """How many ids a second are asked for that the registry turns out not to have."""

    @model_validator(mode="before")
    @classmethod
    def _reject_secrets(cls, values: Any) -> Any:
        if isinstance(values, dict):
            reject_inline(values, {name: name for name in SECRETS})
        return values

    @model_validator(mode="after")
    def _check(self) -> SchemaRegistry:
        for name in SECRETS:
            if getattr(self, name) is not None and getattr(self, f"{name}_file") is not None:
                raise ValueError(f"{name} and {name}_file are both set; remove one of them")
        given = {name.removesuffix("_file") if name != "token_file" else name for name in self._given}
        logins = [name for name in LOGINS if name in given]
        if len(logins) > 1:
            raise ValueError(f"{' and '.join(logins)} are both set: a registry has one login, remove the others")
        needed, possible = LOGINS[logins[0]] if logins else ((), ())
        if missing := [name for name in needed if name not in given]:
            also = f" or {missing[0]}_file" if missing[0] in SECRETS else ""
            raise ValueError(f"{logins[0]} is set without {missing[0]}{also}: add it")
        if unused := given & {"password", "client_id", "client_secret", "scope"} - {*needed, *possible}:
            raise ValueError(f"{min(unused)} is set without what it is for: add username or token_endpoint")
        if (tls := [name for name in TLS if name in self._given]) and not any(
            u.startswith("https:") for u in self.urls
        ):
            raise ValueError(f"{tls[0]} is set, but no address in urls begins with https: write https://, or remove it")
        if self.certificate is None and (self.key or self.key_password_file):
            raise ValueError("certificate is missing: name the file with the certificate of the key")
        return self

    @property
    def has_login(self) -> bool:
        """Whether requests have a password or a token."""
        return bool(self.username or self.token_file or self.token_endpoint)

    @property
    def _given(self) -> set[str]:
        return {name for name in type(self).model_fields if getattr(self, name) is not None}


if TYPE_CHECKING:
    from kafka_sidecar.schemas.registry import Registry, RegistrySettings

LOGIN = (
    "username", "password", "password_file", "token_file", "token_endpoint", "client_id", "client_secret",
    "client_secret_file", "scope",
)  # fmt: skip


def registries(entries: Mapping[str, SchemaRegistry]) -> Mapping[str, Registry]:
    """By their names, each opened when it is asked for."""
    if not entries:
        return {}
    from kafka_sidecar.schemas.registries import Registries

    return Registries({name: settings_of(name, entry) for name, entry in entries.items()})


def settings_of(name: str, entry: SchemaRegistry) -> RegistrySettings:
    from kafka_sidecar.schemas.registry import RegistrySettings

    return RegistrySettings(
        name=name,
        urls=tuple(entry.urls),
        kind=entry.kind,
        context=entry.context,
        tls=_texts({key: getattr(entry, key) for key in TLS}),
        login=_texts({key: getattr(entry, key) for key in LOGIN}),
        headers=tuple(entry.headers.items()),
        timeout_s=entry.timeout,
        max_bytes=entry.max_response,
        cache_bytes=entry.cache_size,
        subjects_ttl_s=entry.subjects_ttl,
        missing_ttl_s=entry.missing_ttl,
        failure_ttl_s=entry.failure_ttl,
        unknown_ids_per_s=entry.max_unknown_ids,
    )


def _texts(values: Mapping[str, str | Path | SecretStr | None]) -> tuple[tuple[str, str], ...]:
    texts = {
        name: value.get_secret_value() if isinstance(value, SecretStr) else str(value)
        for name, value in values.items()
        if value is not None
    }
    return tuple(texts.items())
