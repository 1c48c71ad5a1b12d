"""Who may do what: rules in the words of Kafka's ACLs, decided as Kafka's StandardAuthorizer does.

A deny that applies wins; then an allow that applies; then, for a resource that no rule names, the default.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from kafka_sidecar.plugins.patterns import matches
from kafka_sidecar.proxy.exchanges.rejections import ANONYMOUS

MAX_CACHED_NAME = 255  # longer ones are legal, of groups, and would make the cache as large as a client likes
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

    def covers(self, resource: Resource, name: str) -> bool:
        return resource is self.resource and _matches(self.names, name)

    def applies(self, principal: str, operation: Operation, api: int) -> bool:
        """Whether it decides about this operation of this principal."""
        if not _matches(self.principals, principal) or (self.apis and api not in self.apis):
            return False
        if Operation.ALL in self.operations or operation in self.operations:
            return True
        return self.is_allowed and bool(self.operations & IMPLIED_BY.get(operation, set()))


class Acls:
    """The rules of one configuration."""

    def __init__(self, rules: Collection[Rule], allowed_by_default: bool, super_users: Collection[str] = ()) -> None:
        self._rules = tuple(rules)
        self._default = allowed_by_default
        self._super_users = frozenset(super_users)
        self._decide = lru_cache(10_000)(self._decided)

    def allows(self, principal: str | None, operation: Operation, resource: Resource, name: str, api: int) -> bool:
        """Whether a principal may do this in a request of an API (its key)."""
        decide = self._decide if len(name) <= MAX_CACHED_NAME else self._decided
        return decide(principal or ANONYMOUS, operation, resource, name, api)

    def _decided(self, principal: str, operation: Operation, resource: Resource, name: str, api: int) -> bool:
        if principal in self._super_users:
            return True
        covering = [rule for rule in self._rules if rule.covers(resource, name)]
        applying = [rule.is_allowed for rule in covering if rule.applies(principal, operation, api)]
        if all(applying) if applying else not covering and self._default:
            return True
        # KIP-679: who may write to some topic may do so with an idempotent producer.
        return operation is Operation.IDEMPOTENT_WRITE and not applying and self._allows_some_write(principal, api)

    def _allows_some_write(self, principal: str, api: int) -> bool:
        """Whether there can be a topic to which the principal may write, as `Authorizer.authorizeByResourceType`."""
        about = [rule for rule in self._rules if rule.resource is Resource.TOPIC]
        applying = [rule for rule in about if rule.applies(principal, Operation.WRITE, api)]
        denied = [name for rule in applying if not rule.is_allowed for name in rule.names]
        allowed = [name for rule in applying if rule.is_allowed for name in rule.names]
        if self._default and "*" not in denied:
            return True
        return any(not _matches(denied, name) for name in allowed)


def _matches(patterns: Collection[str], text: str) -> bool:
    return any(matches(pattern, text) for pattern in patterns)
