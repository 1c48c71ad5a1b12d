"""The registries that are open in this process: equal settings share one, and it is closed once nothing uses it."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator, Mapping

from kafka_sidecar.schemas.registry import Registry, RegistrySettings, RegistryStats

_open: weakref.WeakValueDictionary[RegistrySettings, Registry] = weakref.WeakValueDictionary()
_lock = threading.Lock()


def open_registry(settings: RegistrySettings) -> Registry:
    """The registry of these settings; it asks nothing by itself. Raises ValueError: "setting: what is wrong"."""
    from kafka_sidecar.schemas.apicurio import ApicurioRegistry
    from kafka_sidecar.schemas.registry_client import ConfluentRegistry, Link

    with _lock:
        found = _open.get(settings)
        if found is None:
            stats = RegistryStats()
            link = Link(settings, stats)
            kind = ApicurioRegistry if settings.kind == "apicurio" else ConfluentRegistry
            found = _open[settings] = Registry(settings, kind(settings, link), stats, open_registry)
            weakref.finalize(found, link.close)
        return found


class Registries(Mapping[str, Registry]):
    """Registries by name, each opened when it is asked for."""

    def __init__(self, settings: Mapping[str, RegistrySettings]) -> None:
        self._settings = settings

    def __getitem__(self, name: str) -> Registry:
        return open_registry(self._settings[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._settings)

    def __len__(self) -> int:
        return len(self._settings)
