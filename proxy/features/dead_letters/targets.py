"""The dead letter topic of each topic, by the entry of ``topics:`` that matches its name; and loops among them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from kafka_sidecar.codec.topic_names import is_topic_name
from kafka_sidecar.plugins.bounded import Bounded
from kafka_sidecar.plugins.patterns import covers, matches, may_overlap
from kafka_sidecar.proxy.config.dead_letters import TopicDeadLetters, name_for

MAX_TOPICS = 10_000  # whose targets are remembered: clients choose the names


@dataclass(frozen=True, slots=True)
class Target:
    """Where the letters of a topic go."""

    topic: str
    shadow: bool
    records: Literal["batch", "rejected"]
    fault: str | None = None  # why none can go there: a reason for which they are dropped


class Targets:
    """The targets of one version of the configuration."""

    def __init__(
        self, entries: Sequence[tuple[str, TopicDeadLetters | None]] = (), reserved: Collection[str] = ()
    ) -> None:
        """``entries``: patterns of names, and what they have; ``reserved``: topics of which none is a target."""
        self._entries = entries
        self._reserved = frozenset(reserved)
        self._found = Bounded[str, Target | None](MAX_TOPICS)

    def of(self, topic: str) -> Target | None:
        try:
            return self._found[topic]
        except KeyError:
            found = self._found[topic] = self._find(topic)
            return found

    def names(self) -> list[str]:
        """The dead letter topics that are known before any letter."""
        found = dict.fromkeys(
            name_for(section.topic, name)
            for name, section in self._entries
            if section is not None and ("{" not in section.topic or not set(name) & set("*?"))
        )
        return [name for name in found if is_topic_name(name)]

    def _find(self, topic: str) -> Target | None:
        section = self._section(topic)
        if section is None:
            return None
        name, fault = name_for(section.topic, topic), None
        if not is_topic_name(name):
            fault = "no_topic"  # the name is too long
        elif name in self._reserved or self._section(name) is not None:
            fault = "loop"
        return Target(name, section.shadow, section.records, fault)

    def _section(self, topic: str) -> TopicDeadLetters | None:
        return next((section for name, section in self._entries if matches(topic, [name])), None)


def find_loops(entries: Sequence[tuple[str, TopicDeadLetters | None]]) -> Iterator[tuple[int, str, int]]:
    """Entries whose dead letter topics may have dead letters themselves: index, pattern of those topics, and the index
    of the entry that matches them."""
    for index, (name, section) in enumerate(entries):
        if section is None:
            continue
        target = name_for(section.topic, name)
        for at, (pattern, other) in enumerate(entries):
            if other is not None and may_overlap(pattern, target):
                yield index, target, at
                break
            if covers(pattern, target):
                break
