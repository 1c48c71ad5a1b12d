"""StreamsGroupHeartbeat (88): a member of a Kafka Streams group joins, is alive, or leaves (KIP-1071)."""

from __future__ import annotations

from kafka_sidecar.codec.message import Message, Struct
from kafka_sidecar.codec.schema.fields import array, boolean, int8, int16, int32, int64, string, struct, uint16


class KeyValue(Struct):
    key: str = string("0+")
    value: str = string("0+")


class TopicInfo(Struct):
    name: str = string("0+")
    partitions: int = int32("0+")
    replication_factor: int = int16("0+")
    topic_configs: tuple[KeyValue, ...] = array(KeyValue, "0+")


class CopartitionGroup(Struct):
    source_topics: tuple[int, ...] = array(int16, "0+")
    source_topic_regex: tuple[int, ...] = array(int16, "0+")
    repartition_source_topics: tuple[int, ...] = array(int16, "0+")


class Subtopology(Struct):
    subtopology_id: str = string("0+")
    source_topics: tuple[str, ...] = array(string, "0+")
    source_topic_regex: tuple[str, ...] = array(string, "0+")
    state_changelog_topics: tuple[TopicInfo, ...] = array(TopicInfo, "0+")
    repartition_sink_topics: tuple[str, ...] = array(string, "0+")
    repartition_source_topics: tuple[TopicInfo, ...] = array(TopicInfo, "0+")
    copartition_groups: tuple[CopartitionGroup, ...] = array(CopartitionGroup, "0+")


class Topology(Struct):
    epoch: int = int32("0+")
    subtopologies: tuple[Subtopology, ...] = array(Subtopology, "0+")


class TaskIds(Struct):
    subtopology_id: str = string("0+")
    partitions: tuple[int, ...] = array(int32, "0+")


class Endpoint(Struct):
    host: str = string("0+")
    port: int = uint16("0+")


class TaskOffset(Struct):
    subtopology_id: str = string("0+")
    partition: int = int32("0+")
    offset: int = int64("0+")


class StreamsGroupHeartbeatRequest(Message, api_key=88, versions="0-1", flexible="0+"):
    group_id: str = string("0+")
    member_id: str = string("0+")
    member_epoch: int = int32("0+")
    endpoint_information_epoch: int = int32("0+")
    instance_id: str | None = string("0+", nullable="0+", default=None)
    rack_id: str | None = string("0+", nullable="0+", default=None)
    rebalance_timeout_ms: int = int32("0+", default=-1)
    topology: Topology | None = struct(Topology, "0+", nullable="0+")
    active_tasks: tuple[TaskIds, ...] | None = array(TaskIds, "0+", nullable="0+", default=None)
    standby_tasks: tuple[TaskIds, ...] | None = array(TaskIds, "0+", nullable="0+", default=None)
    warmup_tasks: tuple[TaskIds, ...] | None = array(TaskIds, "0+", nullable="0+", default=None)
    process_id: str | None = string("0+", nullable="0+", default=None)
    user_endpoint: Endpoint | None = struct(Endpoint, "0+", nullable="0+")
    client_tags: tuple[KeyValue, ...] | None = array(KeyValue, "0+", nullable="0+", default=None)
    task_offsets: tuple[TaskOffset, ...] | None = array(TaskOffset, "0+", nullable="0+", default=None)
    task_end_offsets: tuple[TaskOffset, ...] | None = array(TaskOffset, "0+", nullable="0+", default=None)
    shutdown_application: bool = boolean("0+")


class Status(Struct):
    status_code: int = int8("0+")
    status_detail: str = string("0+")


class TopicPartition(Struct):
    topic: str = string("0+")
    partitions: tuple[int, ...] = array(int32, "0+")


class EndpointToPartitions(Struct):
    user_endpoint: Endpoint = struct(Endpoint, "0+")
    active_partitions: tuple[TopicPartition, ...] = array(TopicPartition, "0+")
    standby_partitions: tuple[TopicPartition, ...] = array(TopicPartition, "0+")


class StreamsGroupHeartbeatResponse(Message, api_key=88, versions="0-1", flexible="0+"):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)
    member_id: str = string("0+")
    member_epoch: int = int32("0+")
    heartbeat_interval_ms: int = int32("0+")
    acceptable_recovery_lag_legacy: int = int32("0")
    task_offset_interval_ms: int = int32("0+")
    acceptable_recovery_lag: int = int64("1+", default=-1)
    status: tuple[Status, ...] | None = array(Status, "0+", nullable="0+")
    active_tasks: tuple[TaskIds, ...] | None = array(TaskIds, "0+", nullable="0+", default=None)
    standby_tasks: tuple[TaskIds, ...] | None = array(TaskIds, "0+", nullable="0+", default=None)
    warmup_tasks: tuple[TaskIds, ...] | None = array(TaskIds, "0+", nullable="0+", default=None)
    topology_description_required: bool = boolean("1+")
    endpoint_information_epoch: int = int32("0+")
    partitions_by_user_endpoint: tuple[EndpointToPartitions, ...] | None = array(
        EndpointToPartitions, "0+", nullable="0+", default=None
    )
