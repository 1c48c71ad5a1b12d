"""The schema registries that a configuration opens, for policies and interceptors."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import SecretStr

from kafka_sidecar.proxy.config.registries import TLS, SchemaRegistry

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
