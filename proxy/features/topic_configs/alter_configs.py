"""CreateTopics, AlterConfigs and IncrementalAlterConfigs: the sidecar's own configs are removed from the request, and
stored once the broker has accepted the rest.

A topic of which only own configs are set still goes to the broker, with nothing to change: so the broker decides who
may alter it and whether it exists. If it answers with an error, nothing is stored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from kafka_sidecar.codec.apis import APIS, ApiKey, ErrorCode
from kafka_sidecar.codec.message import Message, replace_fields
from kafka_sidecar.codec.messages.create_topics import CreatableTopicConfigs
from kafka_sidecar.codec.wire import NO_ID
from kafka_sidecar.proxy.exchanges.messages import MessageRun, MessageStage, OpenMessage
from kafka_sidecar.proxy.exchanges.rejections import TOPIC_RESOURCE, Rejection
from kafka_sidecar.proxy.features.topic_configs.apis import ConfigsApi, Identity
from kafka_sidecar.proxy.features.topic_configs.describe_configs import DYNAMIC_TOPIC_CONFIG
from kafka_sidecar.proxy.features.topic_configs.keeper import Change, Keeper, StoreConfigs
from kafka_sidecar.proxy.relay.exchange import TURN, Client, Steps


class AlterConfigs(MessageStage):
    """The stage of an API that sets topic configs."""

    name = "topic configs"

    def __init__(self, api: ConfigsApi, keeper: Keeper) -> None:
        self._api = api
        self._keeper = keeper

    def start(self, client: Client, version: int) -> AlterConfigsRun | None:
        known = version >= APIS[self._api.key].min_version  # older ones are the broker's alone
        return AlterConfigsRun(self._api, client, self._keeper) if known else None


class AlterConfigsRun(MessageRun):
    """One request that sets topic configs, and its response."""

    __slots__ = ("_api", "_changes", "_client", "_keeper", "_rejections", "_resources", "_validate_only")

    def __init__(self, api: ConfigsApi, client: Client, keeper: Keeper) -> None:
        self._api = api
        self._client = client
        self._keeper = keeper
        self._resources: list[Any] = []  # of the request
        self._changes: dict[Identity, Change] = {}  # to be stored if the broker agrees
        self._rejections: dict[Identity, Rejection] = {}  # of resources that the broker does not get
        self._validate_only = False

    @property
    def wants_response(self) -> bool:
        return bool(self._changes or self._rejections)

    def request(self, request: OpenMessage) -> Steps[Message | None]:
        api = self._api
        message = yield from request.read(api.request)
        self._resources = list(getattr(message, api.resources))
        self._validate_only = getattr(message, "validate_only")  # noqa: B009 - all three have it
        # The broker rejects a resource that is named twice: which of the two would be ours to check?
        times = Counter(map(api.identify, self._resources))
        rest = []
        for resource in self._resources:
            rest.append(self._take_own(resource, times[api.identify(resource)] == 1))
            yield TURN
        kept = tuple(resource for resource in rest if api.identify(resource) not in self._rejections)
        if self._rejections and not kept:
            results = tuple(api.reject(one, self._rejections[api.identify(one)]) for one in self._resources)
            return replace_fields(api.response(), **{api.results: results})
        request.replace(replace_fields(message, **{api.resources: kept}))
        return None

    def response(self, response: OpenMessage) -> Steps[None]:
        api = self._api
        message = yield from response.read(api.response)
        results: dict[Identity, list[Any]] = {}
        for result in getattr(message, api.results):
            results.setdefault(api.identify(result), []).append(result)
        agreed = {
            identity: _with_topic_id(change, results[identity][0])
            for identity, change in self._changes.items()
            if identity in results and results[identity][0].error_code == ErrorCode.NONE
        }
        failures: Mapping[str, str] = {}
        if agreed and not self._validate_only:
            before = {change.topic: self._keeper.entries.configs(change.topic) for change in agreed.values()}
            failures = yield StoreConfigs(tuple(agreed.values()))
            for change in (change for change in agreed.values() if change.topic not in failures):
                known = before[change.topic] if self._api.key != ApiKey.CREATE_TOPICS else {}
                self._keeper.changed(self._client, change.topic, known, change.apply(known))
        for identity, change in agreed.items():
            results[identity] = [self._complete(result, change, failures) for result in results[identity]]
        response.replace(replace_fields(message, **{api.results: tuple(self._in_order(results))}))

    def _take_own(self, resource: Any, is_named_once: bool) -> Any:
        """What the broker gets of one resource; own configs of it become a change or a rejection."""
        api, own = self._api, self._keeper.own
        identity = kind, topic = api.identify(resource)
        if kind != TOPIC_RESOURCE:
            return resource
        mine = [config for config in resource.configs if api.is_own(own, config)]
        if is_named_once and (mine or (api.replaces and self._is_affected(topic))):
            values = api.new_values(own, mine)
            if isinstance(values, Rejection):
                self._rejections[identity] = values
            elif (trouble := self._keeper.trouble) is not None:
                why = f"Nothing was changed: {trouble}"
                self._rejections[identity] = Rejection(ErrorCode.UNKNOWN_SERVER_ERROR, why)
            else:
                self._changes[identity] = Change(topic, values, api.replaces)
        if not mine:
            return resource
        return replace_fields(
            resource, configs=tuple(config for config in resource.configs if not api.is_own(own, config))
        )

    def _is_affected(self, topic: str) -> bool:
        """Whether a request without own configs takes something away from this topic."""
        is_unknown = self._keeper.trouble is not None
        if is_unknown:
            return self._api.key != ApiKey.CREATE_TOPICS
        return bool(self._keeper.entries.of(topic, NO_ID))

    def _complete(self, result: Any, change: Change, failures: Mapping[str, str]) -> Any:
        """A result of the broker's with what became of own configs."""
        if (why := failures.get(change.topic)) is not None:
            return replace_fields(result, error_code=ErrorCode.UNKNOWN_SERVER_ERROR, error_message=why)
        if self._api.key != ApiKey.CREATE_TOPICS or result.configs is None:
            return result
        own = tuple(
            CreatableTopicConfigs(name=name, value=value, config_source=DYNAMIC_TOPIC_CONFIG)
            for name, value in change.values.items()
        )
        return replace_fields(result, configs=result.configs + own)

    def _in_order(self, results: Mapping[Identity, list[Any]]) -> Iterable[Any]:
        """The broker's results with those of rejected resources among them, in the order of the request."""
        ordered: dict[Identity, list[Any]] = {}
        if self._rejections:
            for resource in self._resources:
                identity = self._api.identify(resource)
                if identity in self._rejections:
                    ordered[identity] = [self._api.reject(resource, self._rejections[identity])]
                elif identity in results:
                    ordered[identity] = results[identity]
        for identity, same in results.items():
            ordered.setdefault(identity, same)
        return (result for same in ordered.values() for result in same)


def _with_topic_id(change: Change, result: Any) -> Change:
    """The id of a topic that was just created, where the broker's response has it."""
    topic_id = getattr(result, "topic_id", NO_ID)
    return change if topic_id == NO_ID else replace(change, topic_id=topic_id)
