"""From the sections of dead letters to the target of each topic, by the entry of ``topics:`` that matches its name;
and what is wrong with them."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from kafka_sidecar.codec.topic_names import is_topic_name
from kafka_sidecar.plugins.bounded import Bounded
from kafka_sidecar.plugins.patterns import covers, first_matcher, matches, may_overlap
from kafka_sidecar.proxy.config.dead_letters import TopicDeadLetters, name_for
from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.config.mistakes import Mistake

KAFKAS_OWN = ("__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata")
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
        self._first = first_matcher([name] for name, _ in entries)
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
        at = self._first(topic)
        return self._entries[at][1] if at is not None else None


def find_loops(entries: Sequence[tuple[str, TopicDeadLetters | None]]) -> Iterator[tuple[int, str, int]]:
    """Entries whose dead letter topics may have dead letters themselves: index, pattern of those topics, and the index
    of the entry that matches them."""
    looped: dict[str, int | None] = {}  # by target: many entries may have one
    for index, (name, section) in enumerate(entries):
        if section is None:
            continue
        target = name_for(section.topic, name)
        if target not in looped:
            looped[target] = _entry_of(target, entries)
        if (at := looped[target]) is not None:
            yield index, target, at


def _entry_of(target: str, entries: Sequence[tuple[str, TopicDeadLetters | None]]) -> int | None:
    """The entry by which a topic of this pattern may have dead letters."""
    for at, (pattern, section) in enumerate(entries):
        if section is not None and may_overlap(pattern, target):
            return at
        if covers(pattern, target):
            return None
    return None


def entries_of(config: Config) -> list[tuple[str, TopicDeadLetters | None]]:
    """Patterns of topics' names, and where their letters go."""
    return [(topic.name, topic.dead_letters if topic.mode != "off" else None) for topic in config.topics]


def reserved_topics(config: Config) -> dict[str, str]:
    """Topics to which no letters may go, and the setting or program whose they are."""
    own = {
        config.audit.topic: "audit.topic",
        config.audit.access_topic: "audit.access_topic",
        config.topic_configs.topic: "topic_configs.topic",
    }
    return {**{name: setting for name, setting in own.items() if name}, **dict.fromkeys(KAFKAS_OWN, "Kafka's own")}


def find_mistakes(config: Config) -> Iterator[Mistake]:
    """What is wrong with dead letter topics: those of others, loops, and a folder that cannot be used."""
    reserved = reserved_topics(config)
    for index, topic in enumerate(config.topics):
        if topic.dead_letters is None:
            continue
        target = name_for(topic.dead_letters.topic, topic.name)
        for name, owner in reserved.items():
            if name == target or (set(target) & set("*?") and matches(name, [target])):
                yield Mistake(
                    ("topics", index, "dead_letters"), f"{name} is {owner}: name another topic for dead letters"
                )
    for index, target, at in find_loops(entries_of(config)):
        yield Mistake(
            ("topics", index, "dead_letters"),
            f"{target} has dead letters itself, by entry {at + 1}, {config.topics[at].name}: letters would go in "
            f"circles; add an entry for {target} without dead_letters before that one",
        )
    section = config.dead_letters
    if section.spool_folder is not None and (trouble := _trouble(section.spool_folder)) is not None:
        yield Mistake(("dead_letters", "spool_folder"), trouble)


def _trouble(folder: Path) -> str | None:
    """Why letters could not be written to a folder, as far as can be seen now."""
    if folder.exists():
        if not folder.is_dir():
            return f"{folder} is a file: name a folder"
        return None if os.access(folder, os.W_OK | os.X_OK) else f"the folder {folder} cannot be written to"
    parent = folder.parent
    if not parent.is_dir():
        return f"the folder {parent} does not exist"
    return None if os.access(parent, os.W_OK | os.X_OK) else f"the folder {parent} cannot be written to"
