"""Requests that are not authorized: which need of which API is checked, by the rules of a configuration."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from kafka_sidecar.codec.apis import APIS, ApiKey
from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.config.sections import AclRule
from kafka_sidecar.proxy.exchanges.messages import ANONYMOUS, MessageStage
from kafka_sidecar.proxy.features.authorization.acls import CLUSTER_NAME, Acls, Operation, Resource, Rule
from kafka_sidecar.proxy.features.authorization.checked_apis import CheckedApi, Need
from kafka_sidecar.proxy.features.authorization.checks import CheckProduce, CheckRun, Rules
from kafka_sidecar.proxy.features.authorization.cluster_apis import CLUSTER_APIS
from kafka_sidecar.proxy.features.authorization.descriptions import (
    CheckPagesRun,
    DescribedOffsetsRun,
    DescribedTopicsRun,
)
from kafka_sidecar.proxy.features.authorization.group_apis import (
    GROUP_APIS,
    GROUP_DESCRIPTIONS,
    SHARE_GROUP_APIS,
    CheckShareOffsetsRun,
    CheckStreamsRun,
    CheckSyncRun,
)
from kafka_sidecar.proxy.features.authorization.sessions import CheckFetch, CheckSharedRun
from kafka_sidecar.proxy.features.authorization.topic_apis import (
    CHANGING,
    TOPIC_APIS,
    CheckCreationRun,
    CheckDeletionRun,
)
from kafka_sidecar.proxy.features.authorization.transaction_apis import TRANSACTION_APIS
from kafka_sidecar.proxy.features.denials import Denials
from kafka_sidecar.proxy.features.feature import NO_STAGES, Feature, Site, Stages

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
MAX_NAME = 249  # characters of a name in a message: a client may send longer ones in thousands
_CHECKS: Mapping[int, type[CheckRun]] = {  # in place of `CheckRun`
    ApiKey.CREATE_TOPICS: CheckCreationRun,
    ApiKey.DELETE_TOPICS: CheckDeletionRun,
    ApiKey.SYNC_GROUP: CheckSyncRun,
    ApiKey.SHARE_FETCH: CheckSharedRun,
    ApiKey.SHARE_ACKNOWLEDGE: CheckSharedRun,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: CheckPagesRun,
    ApiKey.STREAMS_GROUP_HEARTBEAT: CheckStreamsRun,
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: CheckShareOffsetsRun,
}
_API_KEYS = {api.name: key for key, api in APIS.items()}


def rules_of(settings: Iterable[AclRule]) -> list[Rule]:
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


def _resources(of: AclRule) -> Iterable[tuple[Resource, list[str]]]:
    yield Resource.TOPIC, of.topics
    yield Resource.GROUP, of.groups
    yield Resource.TRANSACTIONAL_ID, of.transactional_ids
    yield Resource.CLUSTER, [CLUSTER_NAME] if of.cluster else []


class Authorization:
    """The stages that come first. ``protected`` is a topic that no client may change, whoever it is."""

    def __init__(
        self,
        acls: Acls | None,
        protected: str | None,
        name_of: Callable[[bytes], str | None],
        denials: Denials,
    ) -> None:
        self._acls = acls
        self._protected = protected
        self.rules = Rules(self._explain, name_of, denials)
        self.produce = CheckProduce(self.rules)
        self.fetch = CheckFetch(self.rules, ApiKey.FETCH, CHECKED_APIS[ApiKey.FETCH]) if acls is not None else None

    def stages(self) -> dict[int, MessageStage]:
        """By API, of all but Produce and Fetch."""
        stages: dict[int, MessageStage] = {
            key: partial(_CHECKS.get(key, CheckRun), self.rules, key, api)
            for key, api in CHECKED_APIS.items()
            if key != ApiKey.FETCH and (self._acls is not None or key in CHANGING)
        }
        if self._acls is not None:
            stages[ApiKey.METADATA] = partial(DescribedTopicsRun, self.rules)
            stages[ApiKey.OFFSET_FETCH] = partial(DescribedOffsetsRun, self.rules)
        return stages

    def _explain(self, key: int, need: Need, principal: str | None) -> str | None:
        operation, resource, name, is_prefix = need
        assert isinstance(name, str)
        if name == self._protected and resource is Resource.TOPIC and key in CHANGING:
            return f"{name} stores topic configs and cannot be changed through kafka-sidecar"
        allows = None if self._acls is None else self._acls.allows_all if is_prefix else self._acls.allows
        if allows is None or allows(principal, operation, resource, name, key):
            return None
        who, what = principal or ANONYMOUS, f"{'everything like ' if is_prefix else ''}{name[:MAX_NAME]}"
        return f"{who} is not authorized to {operation} {what} ({APIS[ApiKey(key)].name})"


class AuthorizationFeature(Feature):
    """Rules of who may do what, and that no client changes the topic in which topic configs are stored."""

    denials: Denials

    def __init__(self, site: Site) -> None:
        self._site = site
        self._current: Authorization | None = None
        self.denials = Denials(site.denied, time.time, site)

    def load(self, config: Config) -> Callable[[], None]:
        settings, protected = config.authorization, self._site.config.topic_configs.topic
        acls = Acls(rules_of(settings.rules), settings.default == "allow", settings.super_users)
        current = None
        if settings.is_set or protected is not None:
            current = Authorization(
                acls if settings.is_set else None, protected, self._site.topics.name_of, self.denials
            )
        return partial(self._apply, current)

    def _apply(self, current: Authorization | None) -> None:
        self._current = current

    def stages(self) -> Stages:
        current = self._current
        if current is None:
            return NO_STAGES
        return Stages(messages=current.stages(), produce_guard=current.produce, fetch_guard=current.fetch)


def feature(site: Site) -> Feature:
    """As `compose.FEATURES` says."""
    return AuthorizationFeature(site)
