"""From the sections of dead letters to what topics have, and what is wrong with them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from kafka_sidecar.plugins.patterns import matches
from kafka_sidecar.proxy.config.dead_letters import TopicDeadLetters, name_for
from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.config.mistakes import Mistake
from kafka_sidecar.proxy.features.dead_letters.targets import find_loops

KAFKAS_OWN = ("__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata")


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
