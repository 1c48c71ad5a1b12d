"""The entries of `topic_guards:`, compiled, and what of a request for a topic violates one.

Numbers of a config are read as narrowly as any broker reads them: what is accepted here means the same there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from functools import lru_cache

from kafka_sidecar.plugins.patterns import first_matcher, matcher
from kafka_sidecar.plugins.regular_expressions import compile_pattern
from kafka_sidecar.proxy.config.topic_guards import GuardedConfig, TopicGuard
from kafka_sidecar.proxy.exchanges.messages import ANONYMOUS

MAX_PRINCIPALS, MAX_CACHED_NAME = 1000, 512  # that are remembered, and characters of one
MAX_FINDERS = 100
MAX_LISTED = 5  # violations in one message
MAX_QUOTED = 100  # characters of a value
MAX_NAME = 249  # and of a name: a client may send longer ones
_NUMBER = re.compile(r"[+-]?[0-9]{1,19}(\.[0-9]{1,19})?([eE][+-]?[0-9]{1,3})?")
_SPACE = " \t\r\n"


class Rule(StrEnum):
    """The key of an entry, as metrics and log lines name what was violated."""

    CREATE = "create"
    DELETE = "delete"
    NAMING = "naming"
    PARTITIONS = "partitions"
    REPLICATION_FACTOR = "replication_factor"
    CONFIGS = "configs"
    OTHER_CONFIGS = "other_configs"


@dataclass(frozen=True, slots=True)
class Violation:
    """One rule that a request violates."""

    rule: Rule
    text: str  # with the value, what is allowed and what to do


@dataclass(frozen=True, slots=True)
class Bounds:
    """The numbers that are allowed."""

    low: float | None = None
    high: float | None = None

    @property
    def is_set(self) -> bool:
        return self.low is not None or self.high is not None

    def hold(self, number: float) -> bool:
        return (self.low is None or number >= self.low) and (self.high is None or number <= self.high)

    def __str__(self) -> str:
        if self.low == self.high:
            return f"{self.low}"
        if self.low is None:
            return f"{self.high} at most"
        return f"{self.low} at least" if self.high is None else f"{self.low} to {self.high}"


@dataclass(frozen=True, slots=True)
class Allowed:
    """What a config may be."""

    bounds: Bounds
    values: Sequence[str]  # none: any
    is_required: bool

    @classmethod
    def of(cls, settings: GuardedConfig) -> Allowed:
        return cls(Bounds(settings.min, settings.max), tuple(settings.values or ()), settings.required)

    @property
    def is_any(self) -> bool:
        return not self.values and not self.bounds.is_set

    def accepts(self, value: str) -> bool:
        if self.values:
            return _parts(value) in map(_parts, self.values)
        if not self.bounds.is_set:
            return True
        number = _number(value)
        return number is not None and self.bounds.hold(number)

    def __str__(self) -> str:
        return " or ".join(self.values) or (str(self.bounds) if self.bounds.is_set else "any value")


def _parts(value: str) -> frozenset[str]:
    """A list's parts: their order means nothing to a broker."""
    return frozenset(part.strip(_SPACE) for part in value.split(","))


def _number(value: str) -> float | None:
    """The number that a broker reads in a value; None: there may be none."""
    text = value.strip(_SPACE)
    found = _NUMBER.fullmatch(text)
    if found is None:
        return None
    return int(text) if found[1] is found[2] is None else float(text)


class Operation(IntEnum):
    """Of IncrementalAlterConfigs (KIP-339)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class Creation:
    """A topic that a client would have, as far as it is known."""

    name: str
    partitions: int | None  # None: the broker's default
    replication_factors: Collection[int] | None
    configs: Sequence[tuple[str, str | None]]


class Guard:
    """One entry."""

    def __init__(self, number: int, settings: TopicGuard) -> None:
        """Raises ValueError: the pattern of names is invalid."""
        self.number = number  # from 1
        self.is_enforced = settings.mode == "enforce"
        self.may_create, self.may_delete = settings.create == "allow", settings.delete == "allow"
        self.partitions = Bounds(settings.partitions.min, settings.partitions.max)
        self.replication_factor = Bounds(settings.replication_factor.min, settings.replication_factor.max)
        self.topics, self.is_for = settings.topics, matcher(settings.principals)
        self._naming = settings.naming
        self._is_named_so = compile_pattern(settings.naming) if settings.naming is not None else None
        self._configs = {name: Allowed.of(one) for name, one in settings.configs.items()}
        self._required = tuple(name for name, one in self._configs.items() if one.is_required)
        self._has_others = settings.other_configs == "allow"
        rules = sorted(settings.model_fields_set - {"topics", "principals", "mode"})
        whose = "" if "*" in settings.principals else f" of {', '.join(settings.principals)}"
        self.described = f"entry {number}{whose}: {', '.join(rules) or 'nothing'} ({settings.mode})"  # for a person

    @property
    def mode(self) -> str:
        return "enforce" if self.is_enforced else "shadow"

    @property
    def limits_configs(self) -> bool:
        return bool(self._configs) or not self._has_others

    @property
    def limits_automatic_creation(self) -> bool:
        """Whether there may be names for which a broker must create no topic by itself."""
        limits_numbers = self.partitions.is_set or self.replication_factor.is_set
        return limits_numbers or not self.may_create or self._naming is not None or bool(self._required)

    @property
    def limits_creation(self) -> bool:
        return self.limits_automatic_creation or self.limits_configs

    def depends_on_defaults(self, of: Creation) -> bool:
        """Whether a number that the broker would choose has to be known."""
        is_open = of.partitions is None and self.partitions.is_set
        return is_open or (of.replication_factors is None and self.replication_factor.is_set)

    def of_creation(self, of: Creation, own: Collection[str]) -> Iterator[Violation]:
        """What a new topic violates; ``own``: configs that the sidecar itself keeps."""
        yield from self._of_name(of.name)
        if of.partitions is not None and not self.partitions.hold(of.partitions):
            yield Violation(Rule.PARTITIONS, f"partitions={of.partitions}, allowed: {self.partitions}")
        yield from self.of_replicas(of.replication_factors or ())
        yield from self._missing(name for name, value in of.configs if value is not None)
        yield from self._of_values(of.configs, own)

    def of_automatic_creation(self, name: str) -> Iterator[Violation]:
        """What a topic violates that a broker creates because it was named: with numbers that only the broker knows."""
        yield from self._of_name(name)
        for rule, bounds in (
            (Rule.PARTITIONS, self.partitions),
            (Rule.REPLICATION_FACTOR, self.replication_factor),
        ):
            if bounds.is_set:
                yield Violation(rule, f"{rule.replace('_', '.')} has to be {bounds}: create it with CreateTopics")
        yield from self._missing(())

    def of_partitions(self, count: int) -> Iterator[Violation]:
        """What more partitions of a topic violate; ``count``: of all."""
        if self.partitions.high is not None and count > self.partitions.high:
            yield Violation(Rule.PARTITIONS, f"partitions={count}, allowed: {self.partitions}")

    def of_replicas(self, factors: Iterable[int]) -> Iterator[Violation]:
        """What numbers of replicas violate, each of some partition."""
        for factor in sorted(set(factors)):
            if not self.replication_factor.hold(factor):
                allowed = self.replication_factor
                yield Violation(Rule.REPLICATION_FACTOR, f"replication.factor={factor}, allowed: {allowed}")

    def of_replaced(self, configs: Sequence[tuple[str, str | None]], own: Collection[str]) -> Iterator[Violation]:
        """What configs violate that replace all others of a topic."""
        yield from self._missing(name for name, value in configs if value is not None)
        yield from self._of_values(configs, own)

    def of_incremental(
        self, configs: Sequence[tuple[str, int, str | None]], own: Collection[str]
    ) -> Iterator[Violation]:
        """Violations of single changes. APPEND and SUBTRACT have no value yet: see `limits_value`."""
        for name, operation, _ in configs:
            if operation == Operation.DELETE and name in self._required:
                yield Violation(Rule.CONFIGS, f"{name} is required: set it to {self._configs[name]}")
        yield from self._of_values(
            ((name, value) for name, operation, value in configs if operation != Operation.DELETE), own
        )

    def limits_value(self, name: str) -> bool:
        """Whether it matters what becomes of a config's value."""
        return (allowed := self._configs.get(name)) is not None and not allowed.is_any

    def of_deletion(self) -> Iterator[Violation]:
        if not self.may_delete:
            yield Violation(Rule.DELETE, "it may not be deleted: ask those who operate the cluster")

    def _of_name(self, name: str) -> Iterator[Violation]:
        if not self.may_create:
            yield Violation(Rule.CREATE, "it may not be created: ask those who operate the cluster")
        if self._is_named_so is not None and not self._is_named_so(name.encode(errors="surrogateescape")):
            yield Violation(Rule.NAMING, f"its name does not match {self._naming}: choose another one")

    def _missing(self, named: Iterable[str]) -> Iterator[Violation]:
        found = set(named)
        for name in self._required:
            if name not in found:
                yield Violation(Rule.CONFIGS, f"{name} is missing: set it to {self._configs[name]}")

    def _of_values(self, configs: Iterable[tuple[str, str | None]], own: Collection[str]) -> Iterator[Violation]:
        for name, value in configs:
            allowed = self._configs.get(name)
            if allowed is None:
                if not self._has_others and name not in own:
                    named = ", ".join(self._configs) or "none"
                    yield Violation(Rule.OTHER_CONFIGS, f"{quoted(name)} may not be set, allowed: {named}")
            elif value is not None and not allowed.accepts(value):
                yield Violation(Rule.CONFIGS, f"{name}={quoted(value)}, allowed: {allowed}")


def quoted(value: str) -> str:
    """The beginning of a text that a client has chosen."""
    return value if len(value) <= MAX_QUOTED else f"{value[:MAX_QUOTED]}..."


class Guards:
    """All entries; the first one that matches applies."""

    def __init__(self, settings: Sequence[TopicGuard]) -> None:
        self.entries = [Guard(number, one) for number, one in enumerate(settings, 1)]
        self._is_for = lru_cache(MAX_PRINCIPALS)(self._applying)
        self._finders = lru_cache(MAX_FINDERS)(self._finder)

    def of(self, topic: str, principal: str | None) -> Guard | None:
        who = principal or ANONYMOUS
        applying = self._is_for(who) if len(who) <= MAX_CACHED_NAME else self._applying(who)
        return self._finders(applying)(topic)

    def _applying(self, principal: str) -> tuple[Guard, ...]:
        """The entries of a principal."""
        return tuple(entry for entry in self.entries if entry.is_for(principal))

    def _finder(self, entries: tuple[Guard, ...]) -> Callable[[str], Guard | None]:
        """Finds the first of these entries that matches a topic; there are few such lists, and many principals."""
        first = first_matcher(entry.topics for entry in entries)
        return lambda topic: entries[at] if (at := first(topic)) is not None else None

    def any(self, has: Callable[[Guard], bool]) -> bool:
        """Whether an entry has something."""
        return any(map(has, self.entries))


def describe(topic: str, guard: Guard, violations: Sequence[Violation]) -> str:
    """For the client: topic, entry, and each violation with its remedy."""
    texts = [one.text for one in violations[:MAX_LISTED]]
    if (more := len(violations) - len(texts)) > 0:
        texts.append(f"and {more} more")
    return f"{topic[:MAX_NAME]}: {'; '.join(texts)} (topic_guards, entry {guard.number})"
