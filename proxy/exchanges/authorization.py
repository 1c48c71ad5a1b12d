"""Requests that are not authorized: which operation each API needs, and what answers where a rule does not allow it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from kafka_sidecar.codec.apis import APIS, ApiKey
from kafka_sidecar.proxy.exchanges.acls import ANONYMOUS, Acls, Operation, Resource, Rule
from kafka_sidecar.proxy.exchanges.denied_groups import DeniedGroups
from kafka_sidecar.proxy.exchanges.denied_topics import DeniedTopics
from kafka_sidecar.proxy.exchanges.described_topics import guard as guard_metadata
from kafka_sidecar.proxy.exchanges.topic_apis import CHANGING
from kafka_sidecar.proxy.relay.exchange import Begin

# The operation on each topic that a request names, as KafkaApis checks it.
TOPIC_OPERATIONS: Mapping[int, Operation] = {
    ApiKey.PRODUCE: Operation.WRITE,
    ApiKey.FETCH: Operation.READ,
    ApiKey.LIST_OFFSETS: Operation.DESCRIBE,
    ApiKey.OFFSET_COMMIT: Operation.READ,
    ApiKey.TXN_OFFSET_COMMIT: Operation.READ,
    ApiKey.CREATE_TOPICS: Operation.CREATE,
    ApiKey.DELETE_TOPICS: Operation.DELETE,
    ApiKey.DELETE_RECORDS: Operation.DELETE,
    ApiKey.CREATE_PARTITIONS: Operation.ALTER,
    ApiKey.ALTER_CONFIGS: Operation.ALTER_CONFIGS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Operation.ALTER_CONFIGS,
    ApiKey.DESCRIBE_CONFIGS: Operation.DESCRIBE_CONFIGS,
}


class RuleSettings(Protocol):
    """A rule of the configuration."""

    @property
    def principals(self) -> list[str]: ...
    @property
    def permission(self) -> str: ...
    @property
    def operations(self) -> Iterable[str]: ...
    @property
    def topics(self) -> list[str]: ...
    @property
    def groups(self) -> list[str]: ...


def rules_of(settings: Iterable[RuleSettings]) -> list[Rule]:
    """The rules of a configuration."""
    return [
        Rule(
            tuple(one.principals), one.permission == "allow", frozenset(map(Operation, one.operations)), resource,
            tuple(names),
        )
        for one in settings
        for resource, names in ((Resource.TOPIC, one.topics), (Resource.GROUP, one.groups))
        if names
    ]  # fmt: skip


class Authorization:
    """What every request has to pass. ``protected`` is a topic that no client may change, whoever it is."""

    def __init__(
        self,
        acls: Acls | None,
        protected: str | None,
        name_of: Callable[[bytes], str | None],
        counts: Counter[str],
    ) -> None:
        self._acls = acls
        self._protected = protected
        apis = CHANGING if acls is None else CHANGING | TOPIC_OPERATIONS.keys()
        self.topics = DeniedTopics(apis, self._explain, name_of, counts, self._concerns)
        self._groups = DeniedGroups(self._allows_group, counts)

    def guard(self, key: int, version: int, begin: Begin | None) -> Begin | None:
        """What looks into requests of this API and version, where ``begin`` looks into what is allowed."""
        begin = self.topics.guard(key, version, begin)
        if self._acls is None:
            return begin
        return guard_metadata(self._allows_description, key, version, self._groups.guard(key, version, begin))

    def _concerns(self, key: int, name: str) -> bool:
        return self._acls is not None or (name == self._protected and key in CHANGING)

    def _explain(self, key: int, name: str, principal: str | None) -> str | None:
        if name == self._protected and key in CHANGING:
            return f"{name} stores topic configs and cannot be changed through kafka-sidecar"
        operation = TOPIC_OPERATIONS.get(key)
        if self._acls is None or operation is None or self._acls.allows(principal, operation, Resource.TOPIC, name):
            return None
        return f"{principal or ANONYMOUS} is not authorized to {operation} {name} ({APIS[ApiKey(key)].name})"

    def _allows_group(self, principal: str | None, group: str) -> bool:
        return self._acls is None or self._acls.allows(principal, Operation.READ, Resource.GROUP, group)

    def _allows_description(self, principal: str | None, topic: str) -> bool:
        return self._acls is None or self._acls.allows(principal, Operation.DESCRIBE, Resource.TOPIC, topic)
