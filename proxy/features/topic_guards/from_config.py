"""What is wrong with the entries of `topic_guards:`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kafka_sidecar.plugins.patterns import covers
from kafka_sidecar.plugins.regular_expressions import compile_pattern
from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.config.mistakes import Mistake
from kafka_sidecar.proxy.config.topic_guards import TopicGuard


def find_mistakes(config: Config) -> Iterator[Mistake]:
    """Patterns that are invalid, and entries that an earlier one covers."""
    for index, entry in enumerate(config.topic_guards):
        if entry.naming is not None:
            try:
                compile_pattern(entry.naming)
            except ValueError as error:
                yield Mistake(("topic_guards", index, "naming"), str(error))
        earlier = next((at for at, other in enumerate(config.topic_guards[:index]) if _hides(other, entry)), None)
        if earlier is not None:
            why = f"entry {earlier + 1} matches all of its topics and principals first"
            yield Mistake(("topic_guards", index), f"never applies: {why}; remove one, or put this one first")


def _hides(earlier: TopicGuard, later: TopicGuard) -> bool:
    return _cover(earlier.topics, later.topics) and _cover(earlier.principals, later.principals)


def _cover(wider: Sequence[str], narrower: Sequence[str]) -> bool:
    return all(any(covers(one, other) for one in wider) for other in narrower)
