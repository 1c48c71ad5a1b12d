"""The APIs whose requests name topics, and how each answers that a topic may not be named.

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
    create_topics,
    delete_records,
    delete_topics,
    describe_configs,
    fetch,
    incremental_alter_configs,
    list_offsets,
    offset_commit,
    txn_offset_commit,
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


def _reject_creation(of: create_topics.CreatableTopic, why: TopicError) -> Struct:
    return create_topics.CreatableTopicResult(
        name=of.name, error_code=why.error_code, error_message=why.message, configs=()
    )


def _name_or_topic_id(of: Any) -> str | bytes:
    """Of a request that names topics before some version, and has their ids from then on."""
    name: str = of.topic if isinstance(of, fetch.FetchTopic) else of.name
    topic_id: bytes = of.topic_id
    return name or topic_id


def _reject_fetch(of: fetch.FetchTopic, why: TopicError) -> Struct:
    partitions = (
        fetch.PartitionData(
            partition_index=one.partition, error_code=why.error_code, high_watermark=-1, log_start_offset=-1,
            aborted_transactions=(), records=b"",
        )
        for one in of.partitions
    )  # fmt: skip
    return fetch.FetchableTopicResponse(topic=of.topic, topic_id=of.topic_id, partitions=tuple(partitions))


def _reject_offsets(of: list_offsets.ListOffsetsTopic, why: TopicError) -> Struct:
    partitions = (
        list_offsets.ListOffsetsPartitionResponse(partition_index=one.partition_index, error_code=why.error_code)
        for one in of.partitions
    )
    return list_offsets.ListOffsetsTopicResponse(name=of.name, partitions=tuple(partitions))


def _reject_commit(topic: Callable[..., Struct], partition: Callable[..., Struct], of: Any, why: TopicError) -> Struct:
    """The result of a topic, in the two APIs that commit offsets."""
    partitions = (partition(partition_index=one.partition_index, error_code=why.error_code) for one in of.partitions)
    return topic(name=of.name, topic_id=of.topic_id, partitions=tuple(partitions))


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
    ApiKey.CREATE_TOPICS: TopicsApi(
        request=create_topics.CreateTopicsRequest,
        response=create_topics.CreateTopicsResponse,
        elements=("topics",),
        results="topics",
        topic_of=_name,
        reject=_reject_creation,
    ),
    ApiKey.DESCRIBE_CONFIGS: TopicsApi(
        request=describe_configs.DescribeConfigsRequest,
        response=describe_configs.DescribeConfigsResponse,
        elements=("resources",),
        results="results",
        topic_of=_resource_name,
        reject=partial(reject_resource, partial(describe_configs.DescribeConfigsResult, configs=())),
    ),
    ApiKey.FETCH: TopicsApi(
        request=fetch.FetchRequest,
        response=fetch.FetchResponse,
        elements=("topics",),
        results="responses",
        topic_of=_name_or_topic_id,
        reject=_reject_fetch,
    ),
    ApiKey.LIST_OFFSETS: TopicsApi(
        request=list_offsets.ListOffsetsRequest,
        response=list_offsets.ListOffsetsResponse,
        elements=("topics",),
        results="topics",
        topic_of=_name,
        reject=_reject_offsets,
    ),
    ApiKey.OFFSET_COMMIT: TopicsApi(
        request=offset_commit.OffsetCommitRequest,
        response=offset_commit.OffsetCommitResponse,
        elements=("topics",),
        results="topics",
        topic_of=_name_or_topic_id,
        reject=partial(
            _reject_commit, offset_commit.OffsetCommitResponseTopic, offset_commit.OffsetCommitResponsePartition
        ),
    ),
    ApiKey.TXN_OFFSET_COMMIT: TopicsApi(
        request=txn_offset_commit.TxnOffsetCommitRequest,
        response=txn_offset_commit.TxnOffsetCommitResponse,
        elements=("topics",),
        results="topics",
        topic_of=_name_or_topic_id,
        reject=partial(
            _reject_commit,
            txn_offset_commit.TxnOffsetCommitResponseTopic,
            txn_offset_commit.TxnOffsetCommitResponsePartition,
        ),
    ),
}
# Those whose requests change the topics that they name, or their contents.
CHANGING = frozenset(
    {
        ApiKey.PRODUCE, ApiKey.DELETE_TOPICS, ApiKey.DELETE_RECORDS, ApiKey.CREATE_PARTITIONS, ApiKey.ALTER_CONFIGS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
    }
)  # fmt: skip
