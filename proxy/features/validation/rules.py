"""The policies of each topic: one version of the configuration, replaced as a whole by a reload.

They are described for a person: where they are from, and how they are configured.
"""

from __future__ import annotations

import json
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

from kafka_sidecar.codec.topic_names import is_topic_name
from kafka_sidecar.plugins.patterns import first_matcher
from kafka_sidecar.plugins.settings import shown_settings
from kafka_sidecar.plugins.values import Histogram
from kafka_sidecar.policies.catalog import PolicyCatalog
from kafka_sidecar.policies.contract import ALL, NO_POLICY, Hints, TopicMetadata, TopicPolicy
from kafka_sidecar.policies.plans import Plan, Rule
from kafka_sidecar.proxy.telemetry.readable import hide_secrets

Mode = Literal["enforce", "shadow", "off"]
Action = Literal["hide", "mark"]
MAX_TOPICS = 10_000  # whose plans are kept
MAX_PARTITIONS = 1000  # of a topic, whose metadata are kept

# What is set on a topic of this name and id with Kafka's own tools.
TopicConfig = Callable[[str, bytes], TopicPolicy]
HASH_DIGITS = 12


@dataclass(frozen=True, slots=True)
class ConsumeRule:
    """What consumers get of rejected records."""

    action: Action
    policy: str | None  # None: the one of records that are produced
    header: str  # that marked records get


@dataclass(frozen=True, slots=True)
class TopicRule:
    """One entry of the configuration's ``topics:``."""

    name: str  # of topics, with * and ? as in a shell
    policy: str | None
    mode: Mode
    percent: int  # of the batches for which the mode holds; the others are validated as in "shadow"
    consume: ConsumeRule | None = None  # None: fetched records are not looked at


@dataclass(frozen=True, slots=True)
class Applied:
    """What holds for one topic."""

    text: str  # its record.validation.policy
    plan: Plan
    mode: Mode
    percent: int
    source: str  # where the text is from, for a person
    rejects_values: bool = field(init=False)  # whether batches may be rejected for their values
    _metadata: dict[tuple[int, bytes], TopicMetadata] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        rejects = self.plan.hints.access_values and self.mode == "enforce" and self.percent > 0
        object.__setattr__(self, "rejects_values", rejects)

    def metadata(self, topic: str, partition: int, topic_id: bytes) -> TopicMetadata:
        """What policies are shown of a partition: made once, as making it takes as long as asking a policy."""
        known = self._metadata.get((partition, topic_id))
        if known is None:
            if len(self._metadata) >= MAX_PARTITIONS:
                self._metadata.clear()
            known = self._metadata[partition, topic_id] = TopicMetadata(topic, partition, topic_id, self.text)
        return known

    def subjects(self, topic: str) -> list[str]:
        """The subjects of a schema registry that its policies ask for."""
        return [
            subject
            for rule in self.plan.rules
            if (subjects := getattr(rule.policy, "subjects", None)) is not None
            for subject in subjects(topic, rule.text)
        ]

    def enforces(self, crc: int) -> bool:
        """Whether a bad batch with this checksum is rejected; a batch that is sent again has the same result."""
        return self.mode == "enforce" and crc % 100 < self.percent


@dataclass(frozen=True, slots=True)
class Consumed:
    """What holds for the fetched records of one topic."""

    applied: Applied
    action: Action
    header: str
    acts: bool = field(init=False)  # whether records may be hidden, marked or withheld
    hides: bool = field(init=False)

    def __post_init__(self) -> None:
        acts = self.applied.mode == "enforce" and self.applied.percent > 0
        object.__setattr__(self, "acts", acts)
        object.__setattr__(self, "hides", acts and self.action == "hide")


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
        self._first = first_matcher([rule.name] for rule in topics)
        self._topic_config = topic_config
        # Whether no topic can have a policy.
        self.are_empty = topic_config is None and all(rule.policy is None or rule.mode == "off" for rule in topics)
        # Whether the records of any topic are looked at when they are fetched; and whether some may be hidden.
        looked_at = [rule for rule in topics if rule.consume is not None and rule.mode != "off"]
        self.consume = bool(looked_at)
        self.hide = any(rule.consume is not None and rule.consume.action == "hide" for rule in looked_at)
        self._found: dict[tuple[str, TopicPolicy], Applied | MisconfiguredError | None] = {}  # by topic and its config
        # By topic; of one whose policy may be set on it, what held last.
        self._consumed: dict[str, tuple[ConsumeRule | None, Consumed | None]] = {}
        weakref.finalize(self, catalog.close)  # once the last request that is validated by these rules is done

    @property
    def policies(self) -> list[str]:
        """The names of the policies that are open."""
        return self._catalog.names

    def files(self) -> set[Path]:
        """What the policies have read."""
        return self._catalog.files()

    @property
    def calls(self) -> Mapping[str, Histogram]:
        """How long each policy has taken for a batch, by name."""
        return self._catalog.calls

    def check(self, text: str) -> None:
        """Raises ValueError for a string that no policy understands."""
        self._catalog.plan(text)

    def why_none(self, topic: str) -> str:
        """Why a topic has no policy, for a person."""
        rule = self._entry(topic)
        if rule is None:
            return "no entry of topics: matches its name"
        return f"topics: {rule.name} has " + ("mode off" if rule.mode == "off" else "no policy")

    def of(self, topic: str, topic_id: bytes) -> Applied | None:
        """What holds for a topic; None: its records are not looked at. The string set on the topic itself wins.

        Raises MisconfiguredError for a string that no policy understands.
        """
        set_on_it = self._topic_config(topic, topic_id) if self._topic_config is not None else NO_POLICY
        key = (topic, set_on_it)
        if key not in self._found:
            if not is_topic_name(topic):
                return None  # brokers reject it
            if len(self._found) >= MAX_TOPICS:
                self._found.clear()
            self._found[key] = self._find(topic, set_on_it)
        found = self._found[key]
        if isinstance(found, MisconfiguredError):
            raise found.with_traceback(None)
        return found

    def consume_rule(self, topic: str) -> ConsumeRule | None:
        """What the configuration says of a topic's consumers; None: fetched records are not looked at."""
        return self._consume_entry(topic)[0]

    def consumed(self, topic: str, topic_id: bytes) -> Consumed | None:
        """What holds for fetched records of a topic; None: they are not looked at.

        Raises MisconfiguredError as `of` does.
        """
        consume, found = self._consume_entry(topic)
        if consume is None or consume.policy is not None:
            return found
        applied = self.of(topic, topic_id)
        if applied is None:
            return None
        if found is None or found.applied is not applied:
            found = Consumed(applied, consume.action, consume.header)
            self._consumed[topic] = consume, found
        return found

    def _consume_entry(self, topic: str) -> tuple[ConsumeRule | None, Consumed | None]:
        """What the configuration says, and what holds for the policy that it names, if it names one."""
        found = self._consumed.get(topic)
        if found is None:
            if len(self._consumed) >= MAX_TOPICS:
                self._consumed.clear()
            found = self._consumed[topic] = self._find_consumed(self._entry(topic))
        return found

    def _find_consumed(self, rule: TopicRule | None) -> tuple[ConsumeRule | None, Consumed | None]:
        if rule is None or rule.consume is None or rule.mode == "off":
            return None, None
        consume, text = rule.consume, rule.consume.policy
        if text is None:
            return consume, None
        plan = self._catalog.plan(text)  # which was understood when the configuration was loaded
        applied = Applied(text, plan, rule.mode, rule.percent, f"topics: {rule.name}, consume")
        return consume, Consumed(applied, consume.action, consume.header)

    def _entry(self, topic: str) -> TopicRule | None:
        at = self._first(topic)
        return self.topics[at] if at is not None else None

    def _find(self, topic: str, set_on_it: TopicPolicy) -> Applied | MisconfiguredError | None:
        rule = self._entry(topic)
        text, source = set_on_it.policy, "the topic's config"
        if text is None and rule is not None:
            text, source = rule.policy, f"topics: {rule.name}"
        if set_on_it.added is not None:
            source = "the topic's config" if text is None else f"{source}, and its schema validation"
            text = set_on_it.added if text is None else f"{text}, {set_on_it.added}"
        if text is None or (rule is not None and rule.mode == "off"):
            return None
        mode, percent = (rule.mode, rule.percent) if rule is not None else ("enforce", 100)
        try:
            plan = self._catalog.plan(text)
        except ValueError as error:
            return MisconfiguredError(str(error), mode == "enforce" and percent > 0)
        return Applied(text, plan, mode, percent, source)


def describe_applied(applied: Applied) -> dict[str, Any]:
    """What holds for a topic. The hash is equal where all else but the source is equal, in any sidecar."""
    effective = {
        "record.validation.policy": applied.text,
        "mode": applied.mode,
        "percent": applied.percent,
        "policies": [describe_rule(rule) for rule in applied.plan.rules],
    }
    return {"source": applied.source, "hash": hash_of(effective), **effective}


def hash_of(value: object) -> str:
    """The first digits of a hash of a JSON value.

    >>> hash_of({"b": 1, "a": None}) == hash_of({"a": None, "b": 1})
    True
    """
    return sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:HASH_DIGITS]


def describe_rule(rule: Rule) -> dict[str, Any]:
    """One policy of a topic. Built-in policies have all settings with a value, others those that they were given."""
    return {
        "name": rule.name,
        "class": f"{type(rule.policy).__module__}:{type(rule.policy).__qualname__}",
        "argument": rule.text,
        "on_error": "open" if rule.fail_open else "closed",
        "reads": parts_read(rule.hints),
        "settings": hide_secrets(shown_settings(rule.policy, rule.settings)),
    }


def parts_read(hints: Hints) -> str:
    """The parts of a record that a policy looks at."""
    sizes = {"key": hints.access_key_bytes, "value": hints.access_value_bytes}
    parts = [f"the {part}" if size == ALL else f"{size} bytes of the {part}" for part, size in sizes.items() if size]
    parts += ["headers"] if hints.access_headers else []
    parts += ["sizes and timestamps"] if hints.access_metadata else []
    return ", ".join(parts) or "the batch header only, without decompression"
