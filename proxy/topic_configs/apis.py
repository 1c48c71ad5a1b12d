"""The three APIs that set topic configs, and how each asks for it.

They differ in names and in what a config may be; what happens to a request is the same (`alterations`).
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
from kafka_sidecar.proxy.topic_configs.definitions import Own, Refusal, invalid

TOPIC = 2  # Kafka's ConfigResource.Type

Identity = tuple[int, str]  # type and name of a resource
Sets = Mapping[str, str | None]


class Operation(IntEnum):
    """Of IncrementalAlterConfigs (KIP-339)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


OPERATIONS = frozenset(Operation)


@dataclass(frozen=True, slots=True)
class Shape:
    """One API. ``Any``: an element of its request's or response's array."""

    key: ApiKey
    request: type[Message]
    response: type[Message]
    asked: str  # the array of the request, one element for each resource
    answered: str  # the array of the response
    identity: Callable[[Any], Identity]  # of an element of either
    is_own: Callable[[Own, Any], bool]  # of one config of an element
    sets: Callable[[Own, list[Any]], Sets | Refusal]  # what these own configs ask for
    replaces: bool  # configs that are not named go back to their defaults
    refused: Callable[[Any, Refusal], Struct]  # the answer to an element of the request


def _topic(of: Any) -> Identity:
    return TOPIC, of.name


def _resource(of: Any) -> Identity:
    return of.resource_type, of.resource_name


def _named(own: Own, config: Any) -> bool:
    return config.name in own


def _operated(own: Own, config: Any) -> bool:
    # What is no operation is left for the broker to refuse.
    return config.name in own and config.config_operation in OPERATIONS


def _first_refusal(own: Own, sets: Sets) -> Refusal | None:
    judged = (own[name].refusal(value) for name, value in sets.items() if value is not None)
    return next((refusal for refusal in judged if refusal is not None), None)


def _created(own: Own, configs: list[Any]) -> Sets | Refusal:
    sets = {config.name: config.value for config in configs}
    if nulls := [name for name, value in sets.items() if value is None]:
        return invalid(f"Null value not supported for topic configs: {','.join(nulls)}")
    return _first_refusal(own, sets) or sets


def _replaced(own: Own, configs: list[Any]) -> Sets | Refusal:
    sets = {config.name: config.value for config in configs}
    wrong = _repeated_or_null(configs, (name for name, value in sets.items() if value is None))
    return wrong or _first_refusal(own, sets) or sets


def _incremented(own: Own, configs: list[Any]) -> Sets | Refusal:
    deleted = {config.name for config in configs if config.config_operation == Operation.DELETE}
    sets = {config.name: None if config.name in deleted else config.value for config in configs}
    wrong = _repeated_or_null(configs, (name for name, value in sets.items() if value is None and name not in deleted))
    if wrong is not None:
        return wrong
    for config in configs:
        if config.config_operation in (Operation.APPEND, Operation.SUBTRACT):
            operation = Operation(config.config_operation).name
            return invalid(f"Can't {operation} to key {config.name} because its type is not LIST.")
    return _first_refusal(own, sets) or sets


def _repeated_or_null(configs: list[Any], nulls: Iterable[str]) -> Refusal | None:
    if len({config.name for config in configs}) < len(configs):
        return Refusal(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    if listed := list(nulls):
        return Refusal(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(listed)}")
    return None


def _topic_refused(topic: create_topics.CreatableTopic, refusal: Refusal) -> Struct:
    return create_topics.CreatableTopicResult(name=topic.name, error_code=refusal.code, error_message=refusal.message)


def _resource_refused(response: Callable[..., Struct], resource: Any, refusal: Refusal) -> Struct:
    return response(
        error_code=refusal.code,
        error_message=refusal.message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


SHAPES: Mapping[int, Shape] = {
    shape.key: shape
    for shape in (
        Shape(
            ApiKey.CREATE_TOPICS, create_topics.CreateTopicsRequest, create_topics.CreateTopicsResponse,
            "topics", "topics", _topic, _named, _created, True, _topic_refused,
        ),
        Shape(
            ApiKey.ALTER_CONFIGS, alter_configs.AlterConfigsRequest, alter_configs.AlterConfigsResponse,
            "resources", "responses", _resource, _named, _replaced, True,
            partial(_resource_refused, alter_configs.AlterConfigsResourceResponse),
        ),
        Shape(
            ApiKey.INCREMENTAL_ALTER_CONFIGS, incremental_alter_configs.IncrementalAlterConfigsRequest,
            incremental_alter_configs.IncrementalAlterConfigsResponse,
            "resources", "responses", _resource, _operated, _incremented, False,
            partial(_resource_refused, incremental_alter_configs.AlterConfigsResourceResponse),
        ),
    )
}  # fmt: skip
