"""The three APIs that set topic configs, and how their messages do it.

They differ in names and in what a config may be; what happens to a request is the same (`alter_configs`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from typing import Any

from kafka_sidecar.codec.apis import ApiKey, ErrorCode
from kafka_sidecar.codec.message import Message, Struct
from kafka_sidecar.codec.messages import alter_configs, create_topics, incremental_alter_configs
from kafka_sidecar.proxy.exchanges.rejections import TOPIC_RESOURCE, Rejection, reject_resource
from kafka_sidecar.proxy.features.topic_configs.definitions import OwnConfigs, invalid

Identity = tuple[int, str]  # type and name of a resource
NewValues = Mapping[str, str | None]  # by the name of the config; None: back to its default


class Operation(IntEnum):
    """Of IncrementalAlterConfigs (KIP-339)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


OPERATIONS = frozenset(Operation)


@dataclass(frozen=True, slots=True)
class ConfigsApi:
    """One API. ``Any``: a resource of its request, or a result of its response."""

    key: ApiKey
    request: type[Message]
    response: type[Message]
    resources: str  # the array of the request
    results: str  # the array of the response
    identify: Callable[[Any], Identity]  # a resource or a result
    is_own: Callable[[OwnConfigs, Any], bool]  # whether a config of a resource is one of the sidecar's
    new_values: Callable[[OwnConfigs, list[Any]], NewValues | Rejection]  # what such configs of a resource set
    replaces: bool  # whether configs that are not named go back to their defaults
    reject: Callable[[Any, Rejection], Struct]  # the result of a resource


def _identify_topic(of: Any) -> Identity:
    return TOPIC_RESOURCE, of.name


def _identify_resource(of: Any) -> Identity:
    return of.resource_type, of.resource_name


def _is_named(own: OwnConfigs, config: Any) -> bool:
    return config.name in own


def _has_operation(own: OwnConfigs, config: Any) -> bool:
    # An unknown operation is the broker's to reject.
    return config.name in own and config.config_operation in OPERATIONS


def _first_rejection(own: OwnConfigs, values: NewValues) -> Rejection | None:
    checked = (own[name].reject(value) for name, value in values.items() if value is not None)
    return next((rejection for rejection in checked if rejection is not None), None)


def _values_of_created(own: OwnConfigs, configs: list[Any]) -> NewValues | Rejection:
    values = {config.name: config.value for config in configs}
    if nulls := [name for name, value in values.items() if value is None]:
        return invalid(f"Null value not supported for topic configs: {','.join(nulls)}")
    return _first_rejection(own, values) or values


def _values_of_replaced(own: OwnConfigs, configs: list[Any]) -> NewValues | Rejection:
    values = {config.name: config.value for config in configs}
    rejection = _reject_duplicates_and_nulls(configs, (name for name, value in values.items() if value is None))
    return rejection or _first_rejection(own, values) or values


def _values_of_incremental(own: OwnConfigs, configs: list[Any]) -> NewValues | Rejection:
    deleted = {config.name for config in configs if config.config_operation == Operation.DELETE}
    values = {config.name: None if config.name in deleted else config.value for config in configs}
    nulls = (name for name, value in values.items() if value is None and name not in deleted)
    if (rejection := _reject_duplicates_and_nulls(configs, nulls)) is not None:
        return rejection
    for config in configs:
        if config.config_operation in (Operation.APPEND, Operation.SUBTRACT):
            operation = Operation(config.config_operation).name
            return invalid(f"Can't {operation} to key {config.name} because its type is not LIST.")
    return _first_rejection(own, values) or values


def _reject_duplicates_and_nulls(configs: list[Any], nulls: Iterable[str]) -> Rejection | None:
    if len({config.name for config in configs}) < len(configs):
        return Rejection(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    if listed := list(nulls):
        return Rejection(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(listed)}")
    return None


def _reject_topic(topic: create_topics.CreatableTopic, why: Rejection) -> Struct:
    return create_topics.CreatableTopicResult(name=topic.name, error_code=why.error_code, error_message=why.message)


CONFIGS_APIS: Mapping[int, ConfigsApi] = {
    api.key: api
    for api in (
        ConfigsApi(
            key=ApiKey.CREATE_TOPICS,
            request=create_topics.CreateTopicsRequest,
            response=create_topics.CreateTopicsResponse,
            resources="topics",
            results="topics",
            identify=_identify_topic,
            is_own=_is_named,
            new_values=_values_of_created,
            replaces=True,
            reject=_reject_topic,
        ),
        ConfigsApi(
            key=ApiKey.ALTER_CONFIGS,
            request=alter_configs.AlterConfigsRequest,
            response=alter_configs.AlterConfigsResponse,
            resources="resources",
            results="responses",
            identify=_identify_resource,
            is_own=_is_named,
            new_values=_values_of_replaced,
            replaces=True,
            reject=partial(reject_resource, alter_configs.AlterConfigsResourceResponse),
        ),
        ConfigsApi(
            key=ApiKey.INCREMENTAL_ALTER_CONFIGS,
            request=incremental_alter_configs.IncrementalAlterConfigsRequest,
            response=incremental_alter_configs.IncrementalAlterConfigsResponse,
            resources="resources",
            results="responses",
            identify=_identify_resource,
            is_own=_has_operation,
            new_values=_values_of_incremental,
            replaces=False,
            reject=partial(reject_resource, incremental_alter_configs.AlterConfigsResourceResponse),
        ),
    )
}
