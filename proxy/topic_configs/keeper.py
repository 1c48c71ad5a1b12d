"""What the exchanges ask of whoever keeps the sidecar's own configs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from kafka_sidecar.proxy.topic_configs.definitions import Own
from kafka_sidecar.proxy.topic_configs.entries import Entries, Entry


@dataclass(frozen=True, slots=True)
class Change:
    """What becomes of one topic's own configs once the broker has agreed."""

    topic: str
    sets: Mapping[str, str | None]  # None: back to the default
    replaces: bool = False  # what is not named goes back to the default too
    topic_id: bytes | None = None  # where the broker has told it

    def applied(self, before: Mapping[str, str]) -> dict[str, str]:
        """
        >>> Change("orders", {"a": None, "b": "2"}).applied({"a": "1", "c": "3"})
        {'c': '3', 'b': '2'}
        """
        after = {**({} if self.replaces else before), **self.sets}
        return {name: value for name, value in after.items() if value is not None}


class Keeper(Protocol):
    """Knows what is set, and sets it."""

    @property
    def own(self) -> Own: ...

    @property
    def entries(self) -> Entries: ...

    @property
    def trouble(self) -> str | None:
        """Why nothing can be said or set now; None: it can."""
        ...

    async def alter(self, changes: Sequence[Change]) -> Mapping[str, str]:
        """Returns once all changes can be read by everybody; for those that cannot, topic -> why. Raises nothing."""
        ...

    async def forget(self, entries: Iterable[Entry]) -> None:
        """Returns once the entries of topics that are no more are gone, or were tried. Raises nothing."""
        ...
