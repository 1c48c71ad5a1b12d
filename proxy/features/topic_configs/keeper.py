"""What the exchanges need of the sidecar's own configs: to know what is set, and to set it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from kafka_sidecar.proxy.features.topic_configs.definitions import OwnConfigs
from kafka_sidecar.proxy.features.topic_configs.entries import Entries, Entry
from kafka_sidecar.proxy.relay.exchange import Client, Need


@dataclass(frozen=True, slots=True)
class Change:
    """What becomes of one topic's own configs once the broker has agreed."""

    topic: str
    values: Mapping[str, str | None]  # None: back to the default
    replaces: bool = False  # configs that are not named go back to their defaults, too
    topic_id: bytes | None = None  # where the broker's response has it

    def apply(self, before: Mapping[str, str]) -> dict[str, str]:
        """
        >>> Change("orders", {"a": None, "b": "2"}).apply({"a": "1", "c": "3"})
        {'c': '3', 'b': '2'}
        """
        after = {**({} if self.replaces else before), **self.values}
        return {name: value for name, value in after.items() if value is not None}


@dataclass(frozen=True, slots=True)
class StoreConfigs(Need):
    """Store these changes. Answered once all sidecars can read them, with topic -> why for those not stored."""

    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class ForgetConfigs(Need):
    """Remove the entries of topics that no longer exist. Answered once it was tried."""

    entries: tuple[Entry, ...]


class Keeper(Protocol):
    """Knows what is set."""

    @property
    def own(self) -> OwnConfigs: ...

    @property
    def entries(self) -> Entries: ...

    def changed(self, client: Client, topic: str, before: Mapping[str, str], after: Mapping[str, str]) -> None:
        """A client's change is stored: the topic's own configs before and after it."""
        ...

    @property
    def trouble(self) -> str | None:
        """Why it is not known now what is set; None where it is."""
        ...
