"""CreateTopics, AlterConfigs and IncrementalAlterConfigs, DescribeConfigs and DeleteTopics: the stages that keep the
sidecar's own configs.

They are removed from a request, and stored once the broker has accepted the rest. A topic of which only own configs are
set still goes to the broker, with nothing to change: so the broker decides who may alter it and whether it exists. If
it answers with an error, nothing is stored. Values are validated once it has agreed to alter their topics: it is asked
first, with `validate_only`, so no client has a policy looked up or compiled for a topic that it may not alter.

Own configs appear among those that the broker describes of a topic, and are forgotten with it: a topic that is created
again has another id, for which nothing is set.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import partial
from typing import Any

from kafka_sidecar.codec.apis import APIS, ApiKey, ErrorCode
from kafka_sidecar.codec.message import Message, replace_fields
from kafka_sidecar.codec.messages.create_topics import CreatableTopicConfigs
from kafka_sidecar.codec.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from kafka_sidecar.codec.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from kafka_sidecar.codec.wire import NO_ID
from kafka_sidecar.plugins.effects import TURN, Steps
from kafka_sidecar.proxy.exchanges import elements
from kafka_sidecar.proxy.exchanges.elements import Cut, ElementsApi, rejection_of
from kafka_sidecar.proxy.exchanges.messages import (
    TOPIC_RESOURCE,
    MessageRun,
    MessageStage,
    OpenMessage,
    Rejection,
)
from kafka_sidecar.proxy.features.topic_configs.entries import (
    Change,
    Entry,
    ForgetConfigs,
    Keeper,
    OwnConfig,
    OwnConfigs,
    StoreConfigs,
    invalid,
)
from kafka_sidecar.proxy.relay.exchange import Client


class AlterConfigsRun(MessageRun):
    """One request that sets topic configs, and its response."""

    __slots__ = ("_api", "_changes", "_client", "_cut", "_keeper", "_rejections", "_validate_only", "_version")

    def __init__(self, api: ConfigsApi, keeper: Keeper, client: Client, version: int) -> None:
        self._api = api
        self._client = client
        self._version = version
        self._keeper = keeper
        self._cut: Cut | None = None
        self._changes: dict[Identity, Change] = {}  # to be stored if the broker agrees
        self._rejections: dict[Identity, Rejection] = {}  # of resources that the broker does not get
        self._validate_only = False

    @property
    def wants_response(self) -> bool:
        return bool(self._changes) or (self._cut is not None and bool(self._cut.rejected))

    def request(self, request: OpenMessage) -> Steps[Message | None]:
        api = self._api
        message = yield from request.read(api.request)
        resources = api.elements(message)
        self._validate_only = getattr(message, "validate_only")  # noqa: B009 - all three have it
        # The broker rejects a resource that is named twice: which of the two would be ours to check?
        times = Counter(map(api.identify, resources))
        rest = []
        for resource in resources:
            rest.append(self._take_own(resource, times[api.identify(resource)] == 1))
            yield TURN
        refused = [(topic, why) for (_, topic), why in self._rejections.items()]
        refused += yield from self._validate(request, message, rest)
        self._keeper.refused(self._client, refused)
        why = [self._rejections.get(api.identify(resource)) for resource in rest]
        self._cut = api.cut(replace_fields(message, **{api.resources: tuple(rest)}), why)
        request.replace(self._cut.request)
        return self._cut.answer

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
            failed = [(topic, Rejection(ErrorCode.UNKNOWN_SERVER_ERROR, why)) for topic, why in failures.items()]
            self._keeper.refused(self._client, failed)
        for identity, change in agreed.items():
            results[identity] = [self._complete(result, change, failures) for result in results[identity]]
        completed = (result for same in results.values() for result in same)
        in_order = self._cut.complete(completed) if self._cut is not None else tuple(completed)
        response.replace(replace_fields(message, **{api.results: in_order}))

    def _take_own(self, resource: Any, is_named_once: bool) -> Any:
        """What the broker gets of one resource; own configs of it become a change or a rejection."""
        api, own = self._api, self._keeper.own
        identity = kind, topic = api.identify(resource)
        if kind != TOPIC_RESOURCE:
            return resource
        mine = [config for config in resource.configs if api.is_own(own, config)]
        if is_named_once and (mine or (api.replaces and self._is_affected(topic))):
            values = api.new_values(mine)
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

    def _validate(
        self, request: OpenMessage, message: Message, rest: Iterable[Any]
    ) -> Steps[list[tuple[str, Rejection]]]:
        """Reject the changes that the broker would reject, and of the others those whose values are invalid, which are
        returned."""
        api = self._api
        new = {of for of, change in self._changes.items() if any(value is not None for value in change.values.values())}
        refused: list[tuple[str, Rejection]] = []
        if not new:
            return refused
        asked = (resource for resource in rest if api.identify(resource) in new)
        results = yield from api.validate(request, message, asked, self._version, self._client)
        for identity in new:
            change = self._changes[identity]
            rejection = rejection_of(results.get(identity))
            if rejection is None and (rejection := self._rejection_of(change)) is not None:
                refused.append((change.topic, rejection))
            if rejection is not None:
                self._rejections[identity] = rejection
                del self._changes[identity]
            yield TURN
        return refused

    def _rejection_of(self, change: Change) -> Rejection | None:
        own = self._keeper.own
        checked = (own[name].reject(value) for name, value in change.values.items() if value is not None)
        return next((rejection for rejection in checked if rejection is not None), None)

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


def _with_topic_id(change: Change, result: Any) -> Change:
    """The id of a topic that was just created, where the broker's response has it."""
    topic_id = getattr(result, "topic_id", NO_ID)
    return change if topic_id == NO_ID else replace(change, topic_id=topic_id)


class DeleteTopicsRun(MessageRun):
    """One DeleteTopics request and its response."""

    __slots__ = ("_entries", "_keeper")

    def __init__(self, keeper: Keeper, client: Client, version: int) -> None:
        self._keeper = keeper
        # Looked up before the broker is asked: what is set later may be for a topic that is created again.
        self._entries: list[Entry] = []

    @property
    def wants_response(self) -> bool:
        return bool(self._entries)

    def request(self, request: OpenMessage) -> Steps[None]:
        message = yield from request.read(DeleteTopicsRequest)
        names = [(name, NO_ID) for name in message.topic_names]
        topics = [(topic.name, topic.topic_id) for topic in message.topics]
        entries = self._keeper.entries
        for name, topic_id in names + topics:
            self._entries += entries.of(name, topic_id)
            yield TURN

    def response(self, response: OpenMessage) -> Steps[None]:
        message = yield from response.read(DeleteTopicsResponse)
        deleted = [result for result in message.responses if result.error_code == ErrorCode.NONE]
        names, ids = {result.name for result in deleted}, {result.topic_id for result in deleted}
        if gone := tuple(entry for entry in self._entries if entry.topic in names or entry.topic_id in ids):
            yield ForgetConfigs(gone)


# Kafka's DescribeConfigsResponse.ConfigSource
DYNAMIC_TOPIC_CONFIG, DEFAULT_CONFIG = 1, 5


class DescribeConfigsRun(MessageRun):
    """One DescribeConfigs request and its response.

    The request goes to the broker as it came: a name that the broker does not know adds nothing to its response.
    """

    __slots__ = ("_documented", "_keeper", "_synonyms", "_wanted")

    def __init__(self, keeper: Keeper, client: Client, version: int) -> None:
        self._keeper = keeper
        self._wanted: dict[str, list[OwnConfig]] = {}  # by topic
        self._synonyms = self._documented = False

    @property
    def wants_response(self) -> bool:
        return any(self._wanted.values())

    def request(self, request: OpenMessage) -> Steps[None]:
        if self._keeper.trouble is None:
            message = yield from request.read(DescribeConfigsRequest)
            self._synonyms, self._documented = message.include_synonyms, message.include_documentation
            for resource in message.resources:
                if resource.resource_type == TOPIC_RESOURCE:
                    self._wanted[resource.resource_name] = self._own_among(resource.configuration_keys)
                yield TURN

    def response(self, response: OpenMessage) -> Steps[None]:
        message = yield from response.read(DescribeConfigsResponse)
        results = []
        for result in message.results:
            results.append(self._add_own(result))
            yield TURN
        response.replace(replace_fields(message, results=tuple(results)))

    def _own_among(self, keys: Iterable[str] | None) -> list[OwnConfig]:
        # Null asks for all; so does an empty list, of a broker.
        return [config for name, config in self._keeper.own.items() if not keys or name in keys]

    def _add_own(self, result: DescribeConfigsResult) -> DescribeConfigsResult:
        if result.resource_type != TOPIC_RESOURCE or result.error_code != ErrorCode.NONE:
            return result
        values = self._keeper.entries.configs(result.resource_name)
        own = (self._describe(config, values) for config in self._wanted.get(result.resource_name, ()))
        return replace_fields(result, configs=(*result.configs, *own))

    def _describe(self, config: OwnConfig, values: Mapping[str, str]) -> DescribeConfigsResourceResult:
        values_by_source = {DYNAMIC_TOPIC_CONFIG: values.get(config.name), DEFAULT_CONFIG: config.default}
        known = [(source, value) for source, value in values_by_source.items() if value is not None]
        source, value = known[0] if known else (DEFAULT_CONFIG, None)
        synonyms = (DescribeConfigsSynonym(name=config.name, value=value, source=source) for source, value in known)
        return DescribeConfigsResourceResult(
            name=config.name,
            value=value,
            config_source=source,
            synonyms=tuple(synonyms) if self._synonyms else (),
            config_type=config.type,
            documentation=config.documentation if self._documented else None,
        )


Identity = tuple[int, str]  # type and name of a resource
NewValues = Mapping[str, str | None]  # by the name of the config; None: back to its default


class Operation(IntEnum):
    """Of IncrementalAlterConfigs (KIP-339)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


OPERATIONS = frozenset(Operation)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigsApi(ElementsApi):
    """One API. ``Any``: a resource of its request, or a result of its response."""

    key: ApiKey
    identify: Callable[[Any], Identity]
    is_own: Callable[[OwnConfigs, Any], bool]  # whether a config of a resource is one of the sidecar's
    new_values: Callable[[list[Any]], NewValues | Rejection]  # what such configs of a resource set
    replaces: bool  # whether configs that are not named go back to their defaults

    @property
    def resources(self) -> str:
        """The array of the request."""
        return self.arrays[0]


def _is_named(own: OwnConfigs, config: Any) -> bool:
    return config.name in own


def _has_operation(own: OwnConfigs, config: Any) -> bool:
    # An unknown operation is the broker's to reject.
    return config.name in own and config.config_operation in OPERATIONS


def _values_of_created(configs: list[Any]) -> NewValues | Rejection:
    values = {config.name: config.value for config in configs}
    if nulls := [name for name, value in values.items() if value is None]:
        return invalid(f"Null value not supported for topic configs: {','.join(nulls)}")
    return values


def _values_of_replaced(configs: list[Any]) -> NewValues | Rejection:
    values = {config.name: config.value for config in configs}
    rejection = _reject_duplicates_and_nulls(configs, (name for name, value in values.items() if value is None))
    return rejection or values


def _values_of_incremental(configs: list[Any]) -> NewValues | Rejection:
    deleted = {config.name for config in configs if config.config_operation == Operation.DELETE}
    values = {config.name: None if config.name in deleted else config.value for config in configs}
    nulls = (name for name, value in values.items() if value is None and name not in deleted)
    if (rejection := _reject_duplicates_and_nulls(configs, nulls)) is not None:
        return rejection
    for config in configs:
        if config.config_operation in (Operation.APPEND, Operation.SUBTRACT):
            operation = Operation(config.config_operation).name
            return invalid(f"Can't {operation} to key {config.name} because its type is not LIST.")
    return values


def _reject_duplicates_and_nulls(configs: list[Any], nulls: Iterable[str]) -> Rejection | None:
    if len({config.name for config in configs}) < len(configs):
        return Rejection(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    if listed := list(nulls):
        return Rejection(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(listed)}")
    return None


CONFIGS_APIS: Mapping[int, ConfigsApi] = {
    api.key: api
    for api in (
        elements.CREATE_TOPICS.extended(
            ConfigsApi,
            key=ApiKey.CREATE_TOPICS,
            is_own=_is_named,
            new_values=_values_of_created,
            replaces=True,
        ),
        elements.ALTER_CONFIGS.extended(
            ConfigsApi,
            key=ApiKey.ALTER_CONFIGS,
            is_own=_is_named,
            new_values=_values_of_replaced,
            replaces=True,
        ),
        elements.INCREMENTAL_ALTER_CONFIGS.extended(
            ConfigsApi,
            key=ApiKey.INCREMENTAL_ALTER_CONFIGS,
            is_own=_has_operation,
            new_values=_values_of_incremental,
            replaces=False,
        ),
    )
}


def stages_of(keeper: Keeper) -> dict[int, MessageStage]:
    """By API. Versions that cannot be read are older, and the broker's alone."""
    runs: dict[int, MessageStage] = {
        ApiKey.DESCRIBE_CONFIGS: partial(DescribeConfigsRun, keeper),
        ApiKey.DELETE_TOPICS: partial(DeleteTopicsRun, keeper),
        **{key: partial(AlterConfigsRun, api, keeper) for key, api in CONFIGS_APIS.items()},
    }
    return {key: partial(_begin, APIS[ApiKey(key)].min_version, run) for key, run in runs.items()}


def _begin(oldest: int, run: MessageStage, client: Client, version: int) -> MessageRun | None:
    return run(client, version) if version >= oldest else None
