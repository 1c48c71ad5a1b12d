"""The APIs whose requests name topics, the operation that each needs on them as KafkaApis checks it, and how each
answers that it is not allowed.

They differ in the names of fields; what happens to a request is the same (`denials`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from kafka_sidecar.codec.apis import ApiKey, ErrorCode
from kafka_sidecar.codec.message import Message, Struct, replace_fields
from kafka_sidecar.codec.messages import (
    create_topics,
    delete_records,
    delete_topics,
    describe_configs,
    describe_producers,
    describe_topic_partitions,
    fetch,
    list_offsets,
    offset_for_leader_epoch,
)
from kafka_sidecar.codec.wire import NO_ID
from kafka_sidecar.plugins.effects import Steps
from kafka_sidecar.proxy.exchanges import elements
from kafka_sidecar.proxy.exchanges.elements import reject_element, reject_partitions
from kafka_sidecar.proxy.exchanges.limits import offload
from kafka_sidecar.proxy.exchanges.messages import GROUP_RESOURCE, TOPIC_RESOURCE, OpenMessage, Rejection
from kafka_sidecar.proxy.features.authorization.acls import Operation
from kafka_sidecar.proxy.features.authorization.checked_apis import (
    CheckedApi,
    Need,
    Sight,
    on_cluster,
    on_group,
    on_topic,
    shown_if,
)
from kafka_sidecar.proxy.features.authorization.checks import CheckRun


def named(operation: Operation, of: Any, request: Any) -> Need:
    return on_topic(operation, of.name)


def named_topic(operation: Operation, of: Any, request: Any) -> Need:
    return on_topic(operation, of.topic)


def _config_resource(operation: Operation, of: Any, request: Any) -> Need:
    if of.resource_type == TOPIC_RESOURCE:
        return on_topic(operation, of.resource_name)
    if of.resource_type == GROUP_RESOURCE:
        return on_group(operation, of.resource_name)
    return on_cluster(operation)  # brokers, their loggers, client metrics


_altered = partial(_config_resource, Operation.ALTER_CONFIGS)


def _deleted(of: str | delete_topics.DeleteTopicState, request: Any) -> Need:
    if isinstance(of, str):  # before version 6
        return on_topic(Operation.DELETE, of)
    return on_topic(Operation.DELETE, of.topic_id if of.name is None else of.name)


def is_replica(request: fetch.FetchRequest) -> bool:
    """Whether a broker takes a Fetch for one of a follower."""
    return max(request.replica_id, request.replica_state.replica_id) >= 0


def _fetched(of: fetch.FetchTopic, request: Any) -> Need:
    if is_replica(request):
        return on_cluster(Operation.CLUSTER_ACTION)
    return on_topic(Operation.READ, of.topic or of.topic_id)


def _reject_fetch(of: fetch.FetchTopic, why: Rejection) -> Struct:
    error = why.error_code
    if error == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:  # a broker has errors of topics alone, for replicas too
        error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    partitions = (
        fetch.PartitionData(
            partition_index=one.partition, error_code=error, high_watermark=-1, log_start_offset=-1,
            aborted_transactions=(), records=b"",
        )
        for one in of.partitions
    )  # fmt: skip
    return fetch.FetchableTopicResponse(topic=of.topic, topic_id=of.topic_id, partitions=tuple(partitions))


def _reject_producers(of: describe_producers.TopicRequest, why: Rejection) -> Struct:
    partitions = (
        describe_producers.PartitionResponse(
            partition_index=index, error_code=why.error_code, error_message=why.message
        )
        for index in of.partition_indexes
    )
    return describe_producers.TopicResponse(name=of.name, partitions=tuple(partitions))


TOPIC_APIS: Mapping[int, CheckedApi] = {
    ApiKey.DELETE_TOPICS: elements.DELETE_TOPICS.extended(CheckedApi, need_of=_deleted),
    ApiKey.DELETE_RECORDS: CheckedApi(
        request=delete_records.DeleteRecordsRequest,
        response=delete_records.DeleteRecordsResponse,
        results="topics",
        arrays=("topics",),
        need_of=partial(named, Operation.DELETE),
        reject=partial(
            reject_partitions,
            delete_records.DeleteRecordsTopicResult,
            delete_records.DeleteRecordsPartitionResult,
            low_watermark=-1,
        ),
    ),
    ApiKey.CREATE_PARTITIONS: elements.CREATE_PARTITIONS.extended(CheckedApi, need_of=partial(named, Operation.ALTER)),
    ApiKey.ALTER_CONFIGS: elements.ALTER_CONFIGS.extended(CheckedApi, need_of=_altered),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: elements.INCREMENTAL_ALTER_CONFIGS.extended(CheckedApi, need_of=_altered),
    ApiKey.CREATE_TOPICS: elements.CREATE_TOPICS.extended(
        CheckedApi, unless=on_cluster(Operation.CREATE), need_of=partial(named, Operation.CREATE)
    ),
    ApiKey.DESCRIBE_CONFIGS: CheckedApi(
        request=describe_configs.DescribeConfigsRequest,
        response=describe_configs.DescribeConfigsResponse,
        results="results",
        arrays=("resources",),
        need_of=partial(_config_resource, Operation.DESCRIBE_CONFIGS),
        reject=partial(reject_element, describe_configs.DescribeConfigsResult),
    ),
    ApiKey.FETCH: CheckedApi(
        request=fetch.FetchRequest,
        response=fetch.FetchResponse,
        results="responses",
        arrays=("topics",),
        need_of=_fetched,
        reject=_reject_fetch,
    ),
    ApiKey.LIST_OFFSETS: CheckedApi(
        request=list_offsets.ListOffsetsRequest,
        response=list_offsets.ListOffsetsResponse,
        results="topics",
        arrays=("topics",),
        need_of=partial(named, Operation.DESCRIBE),
        reject=partial(
            reject_partitions, list_offsets.ListOffsetsTopicResponse, list_offsets.ListOffsetsPartitionResponse
        ),
    ),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: CheckedApi(
        request=offset_for_leader_epoch.OffsetForLeaderEpochRequest,
        response=offset_for_leader_epoch.OffsetForLeaderEpochResponse,
        results="topics",
        arrays=("topics",),
        need_of=partial(named_topic, Operation.DESCRIBE),
        reject=partial(
            reject_partitions,
            offset_for_leader_epoch.OffsetForLeaderTopicResult,
            offset_for_leader_epoch.EpochEndOffset,
        ),
    ),
    ApiKey.DESCRIBE_PRODUCERS: CheckedApi(
        request=describe_producers.DescribeProducersRequest,
        response=describe_producers.DescribeProducersResponse,
        results="topics",
        arrays=("topics",),
        need_of=partial(named, Operation.READ),
        reject=_reject_producers,
    ),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: CheckedApi(
        request=describe_topic_partitions.DescribeTopicPartitionsRequest,
        response=describe_topic_partitions.DescribeTopicPartitionsResponse,
        results="topics",
        arrays=("topics",),
        need_of=partial(named, Operation.DESCRIBE),
        reject=partial(reject_element, describe_topic_partitions.DescribeTopicPartitionsResponseTopic),
        shown=shown_if(lambda topic: on_topic(Operation.DESCRIBE, topic.name or topic.topic_id)),
    ),
}
# Those whose requests change the topics that they name, or their contents.
CHANGING = frozenset(
    {
        ApiKey.PRODUCE, ApiKey.DELETE_TOPICS, ApiKey.DELETE_RECORDS, ApiKey.CREATE_PARTITIONS, ApiKey.ALTER_CONFIGS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
    }
)  # fmt: skip


class CheckCreationRun(CheckRun):
    """One CreateTopics: the response says what configs a new topic has (KIP-525), which is a right of its own."""

    __slots__ = ()

    def request(self, request: OpenMessage) -> Steps[Message | None]:
        if (answer := (yield from super().request(request))) is not None:
            return answer
        asked = yield from request.read(create_topics.CreateTopicsRequest)
        needs = [on_topic(Operation.DESCRIBE_CONFIGS, topic.name) for topic in asked.topics]
        allows = partial(self._rules.allows, self._key, principal=self._client.principal)
        if not (yield from offload(lambda: all(map(allows, needs)), request.elements)):
            self._shown = _without_configs
        return None


def _without_configs(of: create_topics.CreatableTopicResult, request: Any, allows: Sight) -> Struct:
    if of.error_code != ErrorCode.NONE or allows(on_topic(Operation.DESCRIBE_CONFIGS, of.name)):
        return of
    denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return replace_fields(of, topic_config_error_code=denied, num_partitions=-1, replication_factor=-1, configs=())


class CheckDeletionRun(CheckRun):
    """One DeleteTopics: what has both a name and an id is an error, whatever the client's rights are."""

    __slots__ = ()

    def _denied(self, message: delete_topics.DeleteTopicsRequest) -> list[Rejection | None]:
        of_rights = super()._denied(message)
        return [
            BOTH if isinstance(one, delete_topics.DeleteTopicState) and one.name and one.topic_id != NO_ID else why
            for one, why in zip(self._api.elements(message), of_rights, strict=True)
        ]


BOTH = Rejection(ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id.")
