"""Which policies apply to which topic: one version of the configuration, replaced as a whole by a reload."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Literal

from kafka_sidecar.codec.topic_names import is_topic_name
from kafka_sidecar.policies.catalog import PolicyCatalog
from kafka_sidecar.policies.contract import TopicMetadata
from kafka_sidecar.policies.plans import Plan

Mode = Literal["enforce", "shadow", "off"]
MAX_TOPICS = 10_000  # whose plans are kept
MAX_PARTITIONS = 1000  # of a topic, whose metadata are kept

# The policy string that is set on a topic of this name and id with Kafka's own tools, None where there is none.
TopicConfig = Callable[[str, bytes], str | None]


@dataclass(frozen=True, slots=True)
class TopicRule:
    """One entry of the configuration's ``topics:``."""

    name: str  # of topics, with * and ? as in a shell
    policy: str | None
    mode: Mode
    percent: int  # of the batches for which the mode holds; the others are validated as in "shadow"


@dataclass(frozen=True, slots=True)
class Applied:
    """What holds for one topic."""

    text: str  # its record.validation.policy
    plan: Plan
    mode: Mode
    percent: int
    source: str  # where the text is from, for a person
    _metadata: dict[tuple[int, bytes], TopicMetadata] = field(default_factory=dict, compare=False)

    def metadata(self, topic: str, partition: int, topic_id: bytes) -> TopicMetadata:
        """What policies are shown of a partition: made once, as making it takes as long as asking a policy."""
        known = self._metadata.get((partition, topic_id))
        if known is None:
            if len(self._metadata) >= MAX_PARTITIONS:
                self._metadata.clear()
            known = self._metadata[partition, topic_id] = TopicMetadata(topic, partition, topic_id, self.text)
        return known

    def enforces(self, crc: int) -> bool:
        """Whether a bad batch with this checksum is rejected; a batch that is sent again has the same result."""
        return self.mode == "enforce" and crc % 100 < self.percent


class MisconfiguredError(ValueError):
    """A topic's string that no policy understands: nothing can be said about its records."""

    def __init__(self, message: str, enforces: bool) -> None:
        super().__init__(message)
        self.enforces = enforces  # whether they are rejected for that


class Rules:
    """The rules for all topics. Later changes of topic configs are seen; everything else stays as it is."""

    def __init__(self, catalog: PolicyCatalog, topics: Sequence[TopicRule], topic_config: TopicConfig | None) -> None:
        self._catalog = catalog
        self.topics = topics
        self._topic_config = topic_config
        # Whether no topic can have a policy.
        self.are_empty = topic_config is None and all(rule.policy is None or rule.mode == "off" for rule in topics)
        self._found: dict[tuple[str, str | None], Applied | MisconfiguredError | None] = {}  # by topic and its config
        weakref.finalize(self, catalog.close)  # once the last request that is validated by these rules is done

    @property
    def policies(self) -> list[str]:
        """The names of the policies that are open."""
        return self._catalog.names

    def check(self, text: str) -> None:
        """Raises ValueError for a string that no policy understands."""
        self._catalog.plan(text)

    def why_none(self, topic: str) -> str:
        """Why a topic has no policy, for a person."""
        rule = next((rule for rule in self.topics if fnmatchcase(topic, rule.name)), None)
        if rule is None:
            return "no entry of topics: matches its name"
        return f"topics: {rule.name} has " + ("mode off" if rule.mode == "off" else "no policy")

    def of(self, topic: str, topic_id: bytes) -> Applied | None:
        """What holds for a topic; None: its records are not looked at. The string set on the topic itself wins.

        Raises MisconfiguredError for a string that no policy understands.
        """
        text = self._topic_config(topic, topic_id) if self._topic_config is not None else None
        key = (topic, text)
        if key not in self._found:
            if not is_topic_name(topic):
                return None  # brokers reject it
            if len(self._found) >= MAX_TOPICS:
                self._found.clear()
            self._found[key] = self._find(topic, text)
        found = self._found[key]
        if isinstance(found, MisconfiguredError):
            raise found.with_traceback(None)
        return found

    def _find(self, topic: str, text: str | None) -> Applied | MisconfiguredError | None:
        rule = next((rule for rule in self.topics if fnmatchcase(topic, rule.name)), None)
        source = "the topic's config"
        if text is None and rule is not None:
            text, source = rule.policy, f"topics: {rule.name}"
        if text is None or (rule is not None and rule.mode == "off"):
            return None
        mode, percent = (rule.mode, rule.percent) if rule is not None else ("enforce", 100)
        try:
            plan = self._catalog.plan(text)
        except ValueError as error:
            return MisconfiguredError(str(error), mode == "enforce" and percent > 0)
        return Applied(text, plan, mode, percent, source)
