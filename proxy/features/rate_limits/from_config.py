"""What can be wrong with rate limits beside their types."""

from __future__ import annotations

from collections.abc import Iterator

from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.config.mistakes import Mistake


def find_mistakes(config: Config) -> Iterator[Mistake]:
    """Names that two limits have: their metrics and buckets would be the same."""
    seen: set[str] = set()
    for index, limit in enumerate(config.rate_limits):
        if limit.name in seen:
            yield Mistake(("rate_limits", index, "name"), f"{limit.name} is the name of another limit: choose its own")
        seen.add(limit.name)
