"""The admin APIs whose requests change the topics that they name, and how each answers that a topic may not be named.

They differ in the names of fields; what happens to a request is the same (`denied_topics`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.message import Message, Struct
from kafka_sidecar.codec.messages import (
    alter_configs,
    create_partitions,
    delete_records,
    delete_topics,
    incremental_alter_configs,
)
from kafka_sidecar.codec.wire import NO_ID

TOPIC_RESOURCE = 2  # Kafka's ConfigResource.Type


@dataclass(frozen=True, slots=True)
class TopicError:
    """The error that a client gets for one topic."""

    error_code: int
    message: str


@dataclass(frozen=True, slots=True)
class TopicsApi:
    """One API. ``Any``: an element of the request."""

    request: type[Message]
    response: type[Message]
    elements: tuple[str, ...]  # the arrays of the request, in its versions
    results: str  # the array of the response
    topic_of: Callable[[Any], str | bytes | None]  # name or id; None: the element is no topic
    reject: Callable[[Any, TopicError], Struct]  # the result of an element


def _name(of: Any) -> str:
    name: str = of.name
    return name


def _resource_name(of: Any) -> str | None:
    return of.resource_name if of.resource_type == TOPIC_RESOURCE else None


def _name_or_id(of: str | delete_topics.DeleteTopicState) -> str | bytes:
    if isinstance(of, str):  # before version 6
        return of
    return of.topic_id if of.name is None else of.name


def _reject_deletion(of: str | delete_topics.DeleteTopicState, why: TopicError) -> Struct:
    name, topic_id = (of, NO_ID) if isinstance(of, str) else (of.name, of.topic_id)
    return delete_topics.DeletableTopicResult(
        name=name, topic_id=topic_id, error_code=why.error_code, error_message=why.message
    )


def _reject_records(of: delete_records.DeleteRecordsTopic, why: TopicError) -> Struct:
    partitions = (
        delete_records.DeleteRecordsPartitionResult(
            partition_index=one.partition_index, low_watermark=-1, error_code=why.error_code
        )
        for one in of.partitions
    )
    return delete_records.DeleteRecordsTopicResult(name=of.name, partitions=tuple(partitions))


def _reject_partitions(of: create_partitions.CreatePartitionsTopic, why: TopicError) -> Struct:
    return create_partitions.CreatePartitionsTopicResult(
        name=of.name, error_code=why.error_code, error_message=why.message
    )


def reject_resource(result: Callable[..., Struct], of: Any, why: TopicError) -> Struct:
    """The result of a resource, in an API that sets configs."""
    return result(
        error_code=why.error_code,
        error_message=why.message,
        resource_type=of.resource_type,
        resource_name=of.resource_name,
    )


TOPIC_APIS: Mapping[int, TopicsApi] = {
    ApiKey.DELETE_TOPICS: TopicsApi(
        request=delete_topics.DeleteTopicsRequest,
        response=delete_topics.DeleteTopicsResponse,
        elements=("topics", "topic_names"),
        results="responses",
        topic_of=_name_or_id,
        reject=_reject_deletion,
    ),
    ApiKey.DELETE_RECORDS: TopicsApi(
        request=delete_records.DeleteRecordsRequest,
        response=delete_records.DeleteRecordsResponse,
        elements=("topics",),
        results="topics",
        topic_of=_name,
        reject=_reject_records,
    ),
    ApiKey.CREATE_PARTITIONS: TopicsApi(
        request=create_partitions.CreatePartitionsRequest,
        response=create_partitions.CreatePartitionsResponse,
        elements=("topics",),
        results="results",
        topic_of=_name,
        reject=_reject_partitions,
    ),
    ApiKey.ALTER_CONFIGS: TopicsApi(
        request=alter_configs.AlterConfigsRequest,
        response=alter_configs.AlterConfigsResponse,
        elements=("resources",),
        results="responses",
        topic_of=_resource_name,
        reject=partial(reject_resource, alter_configs.AlterConfigsResourceResponse),
    ),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: TopicsApi(
        request=incremental_alter_configs.IncrementalAlterConfigsRequest,
        response=incremental_alter_configs.IncrementalAlterConfigsResponse,
        elements=("resources",),
        results="responses",
        topic_of=_resource_name,
        reject=partial(reject_resource, incremental_alter_configs.AlterConfigsResourceResponse),
    ),
}
