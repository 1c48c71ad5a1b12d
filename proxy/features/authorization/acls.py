"""Who may do what: rules in the words of Kafka's ACLs, decided as Kafka's StandardAuthorizer does.

A deny that applies wins; then an allow that applies; then, for a resource that no rule names, the default.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from kafka_sidecar.plugins.patterns import matcher
from kafka_sidecar.proxy.exchanges.messages import ANONYMOUS, UNKNOWN

MAX_CACHED = 10_000
MAX_CACHED_NAMES = 512  # characters; longer ones are legal, of groups, and would let a client fill the cache
CLUSTER_NAME = "kafka-cluster"  # the one resource of its type, as in Kafka


class Operation(StrEnum):
    """Kafka's AclOperation."""

    ALL = "all"
    READ = "read"
    WRITE = "write"
    CREATE = "create"
    DELETE = "delete"
    ALTER = "alter"
    DESCRIBE = "describe"
    DESCRIBE_CONFIGS = "describe_configs"
    ALTER_CONFIGS = "alter_configs"
    CLUSTER_ACTION = "cluster_action"
    IDEMPOTENT_WRITE = "idempotent_write"
    TWO_PHASE_COMMIT = "two_phase_commit"


class Resource(StrEnum):
    """Kafka's ResourceType, of those that rules may name."""

    TOPIC = "topic"
    GROUP = "group"
    TRANSACTIONAL_ID = "transactional_id"
    CLUSTER = "cluster"


# An allow of these allows the operation too.
IMPLIED_BY = {
    Operation.DESCRIBE: {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER},
    Operation.DESCRIBE_CONFIGS: {Operation.ALTER_CONFIGS},
}


@dataclass(frozen=True, slots=True)
class Rule:
    """One entry. Principals and names are patterns with `*` and `?`."""

    principals: tuple[str, ...]
    is_allowed: bool
    operations: frozenset[Operation]
    resource: Resource
    names: tuple[str, ...]
    apis: frozenset[int] = frozenset()  # it is only for requests of these; none: for all

    def applies(self, operation: Operation, resource: Resource, api: int) -> bool:
        """Whether it decides about this operation of its principals, on resources that it names."""
        if resource is not self.resource or (self.apis and api not in self.apis):
            return False
        if Operation.ALL in self.operations or operation in self.operations:
            return True
        return self.is_allowed and bool(self.operations & IMPLIED_BY.get(operation, set()))


@dataclass(frozen=True, slots=True)
class Decision:
    """The rules that apply to one operation of one principal."""

    denies: Callable[[str], bool]  # whether a rule denies it on a resource of this name
    allows: Callable[[str], bool]
    allowing: tuple[str, ...]  # patterns
    denying: tuple[str, ...]


class Acls:
    """The rules of one configuration."""

    def __init__(self, rules: Collection[Rule], allowed_by_default: bool, super_users: Collection[str] = ()) -> None:
        self._rules = [(rule, matcher(rule.principals)) for rule in rules]
        self._default = allowed_by_default
        self._super_users = frozenset(super_users)
        self._named = {one: _names(rule for rule in rules if rule.resource is one) for one in Resource}
        self._is_named = {one: matcher(names) for one, names in self._named.items()}
        self._decide = lru_cache(MAX_CACHED)(self._decided)
        self._of = lru_cache(MAX_CACHED)(self._decision)

    def allows(self, principal: str | None, operation: Operation, resource: Resource, name: str, api: int) -> bool:
        """Whether a principal may do this in a request of an API (its key)."""
        who = principal or ANONYMOUS
        decide = self._decide if len(who) + len(name) <= MAX_CACHED_NAMES else self._decided
        return decide(who, operation, resource, name, api)

    def allows_all(
        self, principal: str | None, operation: Operation, resource: Resource, prefix: str, api: int
    ) -> bool:
        """Whether it may do this with every resource whose name begins with ``prefix``, whether there is one or not."""
        who = principal or ANONYMOUS
        if who in self._super_users:
            return True
        decision = self._of(who, operation, resource, api)
        if any(_meets(pattern, prefix) for pattern in decision.denying):
            return False
        if any(_covers(pattern, prefix) for pattern in decision.allowing):
            return True
        return self._default and not any(_meets(pattern, prefix) for pattern in self._named[resource])

    def _decided(self, principal: str, operation: Operation, resource: Resource, name: str, api: int) -> bool:
        if principal in self._super_users:
            return True
        decision = self._of(principal, operation, resource, api)
        if decision.denies(name):
            return False
        if decision.allows(name) or (self._default and not self._is_named[resource](name)):
            return True
        # KIP-679: who may write to some topic may do so with an idempotent producer.
        return operation is Operation.IDEMPOTENT_WRITE and self._allows_some_write(principal, api)

    def _allows_some_write(self, principal: str, api: int) -> bool:
        """Whether there can be a topic to which the principal may write, as `Authorizer.authorizeByResourceType`."""
        decision = self._of(principal, Operation.WRITE, Resource.TOPIC, api)
        if self._default and "*" not in decision.denying:
            return True
        return any(not decision.denies(name) for name in decision.allowing)

    def _decision(self, principal: str, operation: Operation, resource: Resource, api: int) -> Decision:
        about = [(rule, covers) for rule, covers in self._rules if rule.applies(operation, resource, api)]
        applying = [rule for rule, covers in about if _is_for(rule, covers, principal)]
        denying, allowing = (_names(rule for rule in applying if rule.is_allowed is one) for one in (False, True))
        return Decision(matcher(denying), matcher(allowing), allowing, denying)


def _covers(pattern: str, prefix: str) -> bool:
    """Whether a pattern is for all names that begin like this, as far as that can be read off.

    >>> _covers("*", ""), _covers("orders-*", "orders-eu"), _covers("orders-*", "order"), _covers("orders", "orders")
    (True, True, False, False)
    """
    return pattern.endswith("*") and _literal(pattern) == pattern[:-1] and prefix.startswith(pattern[:-1])


def _meets(pattern: str, prefix: str) -> bool:
    """Whether a pattern may be for a name that begins like this.

    >>> _meets("orders", "ord"), _meets("ord*", "orders"), _meets("ord", "orders"), _meets("other-*", "orders")
    (True, True, False, False)
    """
    literal = _literal(pattern)
    return literal.startswith(prefix) or (literal != pattern and prefix.startswith(literal))


def _literal(pattern: str) -> str:
    return re.split(r"[*?]", pattern, maxsplit=1)[0]


def _is_for(rule: Rule, covers: Callable[[str], bool], principal: str) -> bool:
    """A client that has logged in under an unknown name may be any that is denied something, and is none that is
    allowed something unless a rule names it."""
    if principal == UNKNOWN:
        return not rule.is_allowed or UNKNOWN in rule.principals
    return covers(principal)


def _names(rules: Iterable[Rule]) -> tuple[str, ...]:
    return tuple(name for rule in rules for name in rule.names)
