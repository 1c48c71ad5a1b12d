"""The topics that a configuration names, and what the sidecar's own user has to be allowed on each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

from kafka_sidecar.plugins.patterns import matches
from kafka_sidecar.proxy.config.dead_letters import name_for
from kafka_sidecar.proxy.config.loading import Config

MAX_MATCHES = 200  # topics of a pattern
READ, WRITE, DESCRIBE_CONFIGS = "Read", "Write", "DescribeConfigs"


@dataclass(frozen=True, slots=True)
class Creation:
    """How the sidecar creates a topic that does not exist."""

    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Need:
    """A topic, and why."""

    topic: str
    setting: str  # that names it
    operations: tuple[str, ...] = ()
    does_without: tuple[str, ...] = ()  # operations that are used, and not needed
    creation: Creation | None = None
    create_with: str = ""  # the setting that would let the sidecar create it


def needs_of(config: Config, existing: Iterable[str]) -> list[Need]:
    """Of a configuration. ``existing``: the topics of the cluster, for patterns."""
    found: dict[tuple[str, tuple[str, ...], bool], Need] = {}
    for need in (*_own_topics(config), *_dead_letters(config, list(existing)), *_large(config), *_named(config)):
        found.setdefault((need.topic, need.operations, need.creation is None), need)
    own = {need.topic for need in found.values() if need.operations}
    return [need for need in found.values() if need.operations or need.does_without or need.topic not in own]


def has_patterns(config: Config) -> bool:
    """Whether the topics of the cluster have to be known."""
    return any(is_pattern(entry.name) and entry.dead_letters is not None for entry in config.topics)


def is_pattern(name: str) -> bool:
    return "*" in name or "?" in name


def _own_topics(config: Config) -> Iterator[Need]:
    """Those that the sidecar writes and reads itself."""
    audit, configs = config.audit, config.topic_configs
    made = Creation(audit.partitions, audit.replication_factor, audit.topic_configs)
    if audit.topic is not None and audit.type is not None:
        yield Need(audit.topic, "audit.topic", (WRITE,), creation=made)
    if audit.access_topic is not None and audit.access != "off":
        yield Need(audit.access_topic, "audit.access_topic", (WRITE,), creation=made)
    if configs.topic is not None:
        one = Creation(1, configs.replication_factor, {"cleanup.policy": "compact"})
        yield Need(configs.topic, "topic_configs.topic", (READ, WRITE), creation=one)


def _dead_letters(config: Config, existing: list[str]) -> Iterator[Need]:
    create = config.dead_letters.create
    made = Creation(create.partitions, create.replication_factor, create.configs) if create is not None else None
    for number, entry in enumerate(config.topics, 1):
        if entry.dead_letters is None:
            continue
        topics = [entry.name]
        if is_pattern(entry.name):
            topics = list(islice((one for one in existing if matches(one, [entry.name])), MAX_MATCHES))
        setting = f"topics (entry {number}).dead_letters"
        for letters in dict.fromkeys(name_for(entry.dead_letters.topic, topic) for topic in topics):
            yield Need(letters, setting, (WRITE,), (DESCRIBE_CONFIGS,), made, "dead_letters.create")


def _large(config: Config) -> Iterator[Need]:
    """Their limits are asked for, unless they are in the file."""
    for number, entry in enumerate(config.large_messages.topics, 1):
        if entry.enabled and not is_pattern(entry.name):
            asked = () if entry.max_batch is not None else (DESCRIBE_CONFIGS,)
            yield Need(entry.name, f"large_messages.topics (entry {number})", does_without=asked)


def _named(config: Config) -> Iterator[Need]:
    """Those that have to exist, and nothing more."""
    lists: dict[str, list[str]] = {"audit.topics": config.audit.topics if config.audit.type is not None else []}
    lists |= {f"topics (entry {number})": [one.name] for number, one in enumerate(config.topics, 1)}
    sections: dict[str, list[list[str]]] = {
        "producers": [one.topics for one in config.producers],
        "rate_limits": [one.topics for one in config.rate_limits],
        "interceptors": [one.topics for one in config.interceptors],
    }
    for section, entries in sections.items():
        lists |= {f"{section} (entry {number}).topics": topics for number, topics in enumerate(entries, 1)}
    for setting, names in lists.items():
        yield from (Need(name, setting) for name in names if not is_pattern(name))
