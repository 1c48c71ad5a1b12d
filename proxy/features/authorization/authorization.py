"""Requests that are not authorized: which need of which API is checked, by the rules of a configuration."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from kafka_sidecar.codec.apis import APIS, ApiKey
from kafka_sidecar.proxy.exchanges.rejections import ANONYMOUS
from kafka_sidecar.proxy.features.authorization import described_offsets, described_topics
from kafka_sidecar.proxy.features.authorization.acls import CLUSTER_NAME, Acls, Operation, Resource, Rule
from kafka_sidecar.proxy.features.authorization.checked_apis import CheckedApi, Need, on_topic
from kafka_sidecar.proxy.features.authorization.cluster_apis import CLUSTER_APIS
from kafka_sidecar.proxy.features.authorization.denials import Denials
from kafka_sidecar.proxy.features.authorization.group_apis import GROUP_APIS
from kafka_sidecar.proxy.features.authorization.group_descriptions import GROUP_DESCRIPTIONS
from kafka_sidecar.proxy.features.authorization.share_group_apis import SHARE_GROUP_APIS
from kafka_sidecar.proxy.features.authorization.topic_apis import CHANGING, TOPIC_APIS
from kafka_sidecar.proxy.features.authorization.transaction_apis import TRANSACTION_APIS
from kafka_sidecar.proxy.relay.exchange import Begin

CHECKED_APIS: Mapping[int, CheckedApi] = {
    **TOPIC_APIS, **GROUP_APIS, **GROUP_DESCRIPTIONS, **SHARE_GROUP_APIS, **TRANSACTION_APIS, **CLUSTER_APIS,
}  # fmt: skip
# Everybody may use these, as at a broker.
OPEN_APIS = frozenset(
    {
        ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE, ApiKey.API_VERSIONS, ApiKey.DESCRIBE_CLUSTER,
        ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY,
    }
)  # fmt: skip
_API_KEYS = {api.name: key for key, api in APIS.items()}


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
    @property
    def transactional_ids(self) -> list[str]: ...
    @property
    def cluster(self) -> bool: ...
    @property
    def apis(self) -> list[str]: ...


def rules_of(settings: Iterable[RuleSettings]) -> list[Rule]:
    """The rules of a configuration."""
    return [
        Rule(
            tuple(one.principals), one.permission == "allow", frozenset(map(Operation, one.operations)), resource,
            tuple(names), frozenset(_API_KEYS[name] for name in one.apis),
        )
        for one in settings
        for resource, names in _resources(one)
        if names
    ]  # fmt: skip


def _resources(of: RuleSettings) -> Iterable[tuple[Resource, list[str]]]:
    yield Resource.TOPIC, of.topics
    yield Resource.GROUP, of.groups
    yield Resource.TRANSACTIONAL_ID, of.transactional_ids
    yield Resource.CLUSTER, [CLUSTER_NAME] if of.cluster else []


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
        checked = {key: api for key, api in CHECKED_APIS.items() if acls is not None or key in CHANGING}
        self.denials = Denials(checked, self._explain, name_of, counts, self._concerns)

    def guard(self, key: int, version: int, begin: Begin | None) -> Begin | None:
        """What looks into requests of this API and version, where ``begin`` looks into what is allowed."""
        begin = self.denials.guard(key, version, begin)
        if self._acls is None:
            return begin
        begin = described_offsets.guard(self.denials, key, version, begin)
        return described_topics.guard(self._allows_description, key, version, begin)

    def _concerns(self, key: int, name: str) -> bool:
        return self._acls is not None or (name == self._protected and key in CHANGING)

    def _explain(self, key: int, need: Need, principal: str | None) -> str | None:
        operation, resource, name = need
        assert isinstance(name, str)
        if name == self._protected and resource is Resource.TOPIC and key in CHANGING:
            return f"{name} stores topic configs and cannot be changed through kafka-sidecar"
        if self._acls is None or self._acls.allows(principal, operation, resource, name, key):
            return None
        return f"{principal or ANONYMOUS} is not authorized to {operation} {name} ({APIS[ApiKey(key)].name})"

    def _allows_description(self, principal: str | None, topic: str) -> bool:
        return self.denials.allows(ApiKey.METADATA, on_topic(Operation.DESCRIBE, topic), principal)
