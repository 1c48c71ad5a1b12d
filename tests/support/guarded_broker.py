"""A broker in memory that creates, alters and deletes topics, and requests that reach it through guards of topics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.envelope import decode_request, decode_response, encode_request, encode_response
from kafka_sidecar.codec.message import Message, replace_fields
from kafka_sidecar.codec.messages import (
    alter_configs,
    alter_partition_reassignments,
    create_partitions,
    create_topics,
    delete_topics,
    describe_configs,
    incremental_alter_configs,
    metadata,
    streams_group_heartbeat,
)
from kafka_sidecar.plugins.effects import Need, Work
from kafka_sidecar.proxy.features.compose import Features
from kafka_sidecar.proxy.relay.exchange import Respond, Send, TopicNames
from support.client import FakeClient
from support.features import begun
from support.produce_requests import topic_id

EXISTS, UNKNOWN, INVALID_CONFIG, INVALID_REQUEST, POLICY_VIOLATION = 36, 3, 40, 42, 44
KAFKAS_DEFAULTS = {"cleanup.policy": "delete", "retention.ms": "604800000"}
ALTER, INCREMENTAL = alter_configs.AlterConfigsRequest, incremental_alter_configs.IncrementalAlterConfigsRequest
REQUESTS: Mapping[int, type[Message]] = {
    ApiKey.CREATE_TOPICS: create_topics.CreateTopicsRequest,
    ApiKey.CREATE_PARTITIONS: create_partitions.CreatePartitionsRequest,
    ApiKey.ALTER_CONFIGS: ALTER,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: INCREMENTAL,
    ApiKey.DELETE_TOPICS: delete_topics.DeleteTopicsRequest,
    ApiKey.DESCRIBE_CONFIGS: describe_configs.DescribeConfigsRequest,
    ApiKey.METADATA: metadata.MetadataRequest,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: alter_partition_reassignments.AlterPartitionReassignmentsRequest,
    ApiKey.STREAMS_GROUP_HEARTBEAT: streams_group_heartbeat.StreamsGroupHeartbeatRequest,
}
RESPONSES: Mapping[int, type[Message]] = {
    ApiKey.CREATE_TOPICS: create_topics.CreateTopicsResponse,
    ApiKey.CREATE_PARTITIONS: create_partitions.CreatePartitionsResponse,
    ApiKey.ALTER_CONFIGS: alter_configs.AlterConfigsResponse,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: incremental_alter_configs.IncrementalAlterConfigsResponse,
    ApiKey.DELETE_TOPICS: delete_topics.DeleteTopicsResponse,
    ApiKey.DESCRIBE_CONFIGS: describe_configs.DescribeConfigsResponse,
    ApiKey.METADATA: metadata.MetadataResponse,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: alter_partition_reassignments.AlterPartitionReassignmentsResponse,
    ApiKey.STREAMS_GROUP_HEARTBEAT: streams_group_heartbeat.StreamsGroupHeartbeatResponse,
}


@dataclass
class Topic:
    partitions: int
    factor: int
    configs: dict[str, str] = field(default_factory=dict)


@dataclass
class GuardedBroker:
    """Knows no policy. ``topics`` is what its clients have made of it."""

    topics: dict[str, Topic] = field(default_factory=dict)
    partitions: int = 2  # the defaults
    factor: int = 1
    tells_defaults: bool = True
    creates_named: bool = True  # auto.create.topics.enable
    creation_error: int = 0  # of every topic that is to be created
    asked: list[tuple[ApiKey, int, Any]] = field(default_factory=list)  # all that has arrived

    def serve(self, frame: bytes) -> bytes:
        key, version = ApiKey(int.from_bytes(frame[4:6], "big")), int.from_bytes(frame[6:8], "big")
        header, opened = decode_request(REQUESTS[key], frame)
        self.asked.append((key, version, opened.message))
        message: Any = opened.message
        if key == ApiKey.METADATA and not version and not message.topics:  # none means all
            every = tuple(metadata.MetadataRequestTopic(name=name) for name in self.topics)
            message = replace_fields(message, topics=every)
        answer: Message = _SERVED[key](self, message)
        return encode_response(answer, version, header.correlation_id)

    def _create(self, request: Any) -> Message:
        results, times = [], Counter(topic.name for topic in request.topics)
        for topic in {one.name: one for one in request.topics}.values():
            error = INVALID_REQUEST if times[topic.name] > 1 else EXISTS if topic.name in self.topics else 0
            error = error or self.creation_error
            count = len(topic.assignments) or topic.num_partitions
            made = Topic(
                self.partitions if count == -1 else count,
                len(topic.assignments[0].broker_ids)
                if topic.assignments
                else self.factor
                if topic.replication_factor == -1
                else topic.replication_factor,
                {config.name: config.value for config in topic.configs},
            )
            if not error and not request.validate_only:
                self.topics[topic.name] = made
            numbers = (made.partitions, made.factor) if self.tells_defaults and not error else (-1, -1)
            results.append(
                create_topics.CreatableTopicResult(
                    name=topic.name, error_code=error, error_message="of the broker" if error else None,
                    num_partitions=numbers[0], replication_factor=numbers[1], configs=(),
                )
            )  # fmt: skip
        return create_topics.CreateTopicsResponse(topics=tuple(results))

    def _add_partitions(self, request: Any) -> Message:
        results = []
        for topic in request.topics:
            error = 0 if topic.name in self.topics else UNKNOWN
            if not error and not request.validate_only:
                self.topics[topic.name].partitions = topic.count
            results.append(create_partitions.CreatePartitionsTopicResult(name=topic.name, error_code=error))
        return create_partitions.CreatePartitionsResponse(results=tuple(results))

    def _alter(self, request: Any) -> Message:
        of: Any = alter_configs if isinstance(request, ALTER) else incremental_alter_configs
        of_response: Any = RESPONSES[
            ApiKey.ALTER_CONFIGS if isinstance(request, ALTER) else ApiKey.INCREMENTAL_ALTER_CONFIGS
        ]
        results = []
        for resource in request.resources:
            error = 0 if resource.resource_name in self.topics or resource.resource_type != 2 else UNKNOWN
            if not error and resource.resource_type == 2:
                topic = self.topics[resource.resource_name]
                configs = {} if isinstance(request, ALTER) else dict(topic.configs)
                for config in resource.configs:
                    error = error or _apply(configs, config, getattr(config, "config_operation", 0))
                if not error and not request.validate_only:
                    topic.configs = configs
            results.append(
                of.AlterConfigsResourceResponse(
                    error_code=error, error_message=None, resource_type=resource.resource_type,
                    resource_name=resource.resource_name,
                )
            )  # fmt: skip
        response: Message = of_response(responses=tuple(results))
        return response

    def _delete(self, request: Any) -> Message:
        results = []
        ids = {topic_id(name): name for name in self.topics}
        names = [(name, topic_id(name)) for name in request.topic_names]
        names += [(topic.name or ids.get(topic.topic_id), topic.topic_id) for topic in request.topics]
        for name, of in reversed(names):  # brokers shuffle them
            found = self.topics.pop(name, None)
            results.append(
                delete_topics.DeletableTopicResult(name=name or "", topic_id=of, error_code=0 if found else UNKNOWN)
            )
        return delete_topics.DeleteTopicsResponse(responses=tuple(results))

    def _describe(self, request: Any) -> Message:
        results = []
        for resource in request.resources:
            topic = self.topics.get(resource.resource_name)
            results.append(
                describe_configs.DescribeConfigsResult(
                    error_code=UNKNOWN if topic is None else 0, error_message=None, resource_type=2,
                    resource_name=resource.resource_name,
                    configs=() if topic is None else tuple(
                        _described(name, topic) for name in resource.configuration_keys if name in KAFKAS_DEFAULTS
                    ),
                )
            )  # fmt: skip
        return describe_configs.DescribeConfigsResponse(results=tuple(results))

    def _name(self, request: Any) -> Message:
        topics = []
        for topic in request.topics or ():
            error = 0 if topic.name in self.topics else UNKNOWN
            if error and self.creates_named and request.allow_auto_topic_creation and "/" not in topic.name:
                self.topics[topic.name] = Topic(self.partitions, self.factor)
            count = self.topics[topic.name].partitions if not error else 0
            partitions = tuple(metadata.MetadataResponsePartition(partition_index=at) for at in range(count))
            topics.append(metadata.MetadataResponseTopic(error_code=error, name=topic.name, partitions=partitions))
        return metadata.MetadataResponse(topics=tuple(topics))

    def _reassign(self, request: Any) -> Message:
        of: Any = alter_partition_reassignments
        for topic in request.topics:
            for partition in topic.partitions:
                if partition.replicas is not None:
                    self.topics[topic.name].factor = len(partition.replicas)
        results = (
            of.ReassignableTopicResponse(
                name=topic.name,
                partitions=tuple(
                    of.ReassignablePartitionResponse(partition_index=one.partition_index, error_message=None)
                    for one in topic.partitions
                ),
            )
            for topic in request.topics
        )
        response: Message = of.AlterPartitionReassignmentsResponse(responses=tuple(results), error_message=None)
        return response

    def _beat(self, request: Any) -> Message:
        return streams_group_heartbeat.StreamsGroupHeartbeatResponse(member_id=request.member_id, member_epoch=1)


_SERVED: Mapping[int, Callable[[GuardedBroker, Any], Message]] = {
    ApiKey.CREATE_TOPICS: GuardedBroker._create,
    ApiKey.CREATE_PARTITIONS: GuardedBroker._add_partitions,
    ApiKey.ALTER_CONFIGS: GuardedBroker._alter,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: GuardedBroker._alter,
    ApiKey.DELETE_TOPICS: GuardedBroker._delete,
    ApiKey.DESCRIBE_CONFIGS: GuardedBroker._describe,
    ApiKey.METADATA: GuardedBroker._name,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: GuardedBroker._reassign,
    ApiKey.STREAMS_GROUP_HEARTBEAT: GuardedBroker._beat,
}


def _apply(configs: dict[str, str], config: Any, operation: int) -> int:
    """Kafka's incrementalAlterConfigResource: the error."""
    if operation == 1:
        configs.pop(config.name, None)
    elif operation == 0:
        configs[config.name] = config.value
    elif config.name != "cleanup.policy":
        return INVALID_CONFIG  # it is no list
    else:
        parts = configs.get(config.name, KAFKAS_DEFAULTS[config.name]).split(",")
        changed = config.value.split(",")
        new = [*parts, *(one for one in changed if one not in parts)] if operation == 2 else None
        configs[config.name] = ",".join(new if new is not None else [one for one in parts if one not in changed])
    return 0


def _described(name: str, topic: Topic) -> Any:
    synonyms = [(1, topic.configs.get(name)), (4, "of a broker"), (5, KAFKAS_DEFAULTS[name])]
    return describe_configs.DescribeConfigsResourceResult(
        name=name, value=topic.configs.get(name, "of a broker"),
        synonyms=tuple(
            describe_configs.DescribeConfigsSynonym(name=name, value=value, source=source)
            for source, value in synonyms if value is not None
        ),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Exchanged:
    """What a client got, and what became of its request."""

    response: Any
    forwarded: bytes | None  # None: answered here
    is_same: bool  # the broker got the client's frame


def through(
    features: Features, broker: GuardedBroker, key: ApiKey, version: int, message: Message,
    principal: str | None = None,
) -> Exchanged:  # fmt: skip
    """A request of a client through the sidecar."""
    frame = encode_request(message, version, 7, "app")
    exchange = begun(features, key, version, frame, FakeClient(principal=principal))
    if exchange is None:
        return Exchanged(decode_response(RESPONSES[key], broker.serve(frame), version).message, frame, True)
    step = exchange.request(frame)
    while isinstance(step, Need):
        step = exchange.answer(_met(step, broker))
    if isinstance(step, Respond):
        return Exchanged(decode_response(RESPONSES[key], step.frame, version).message, None, False)
    assert isinstance(step, bytes)
    answer: Any = broker.serve(step)
    if exchange.wants_response:
        answer = exchange.response(answer)
        while isinstance(answer, Need):
            answer = exchange.answer(_met(answer, broker))
    return Exchanged(decode_response(RESPONSES[key], answer, version).message, step, step is frame)


def _met(need: Need, broker: GuardedBroker) -> Any:
    if isinstance(need, Send):
        return tuple(map(broker.serve, need.frames))
    if isinstance(need, Work):
        return need.run()
    assert isinstance(need, TopicNames), need
    return None
