"""Mistakes in `producers:` beyond the types of its settings."""

from __future__ import annotations

from collections.abc import Iterator

from kafka_sidecar.plugins.patterns import covers
from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.config.mistakes import Mistake
from kafka_sidecar.proxy.features.producer_habits.habits import Entry


def find_mistakes(config: Config) -> Iterator[Mistake]:
    """Patterns that RE2 does not accept, entries that can never apply."""
    earlier: list[tuple[str, int]] = []  # patterns of topics, and the entries that take all their producers
    for index, settings in enumerate(config.producers):
        try:
            Entry(index + 1, settings)
        except ValueError as error:
            yield Mistake(("producers", index, "client_id"), str(error))
        first = [next((at for wider, at in earlier if covers(wider, one)), None) for one in settings.topics]
        if None not in first:
            numbers = ", ".join(str(at) for at in sorted({at + 1 for at in first if at is not None}))
            yield Mistake(
                ("producers", index, "topics"),
                f"never applies: entry {numbers} matches all of these topics first; move this entry up, or remove it",
            )
        if not settings.principals:
            earlier += [(one, index) for one in settings.topics]
