"""StreamsGroupDescribe (89): members of Kafka Streams groups (KIP-1071)."""

from __future__ import annotations

from kafka_sidecar.codec.message import Message, Struct
from kafka_sidecar.codec.schema.fields import array, boolean, int8, int16, int32, int64, string, struct, uint16


class StreamsGroupDescribeRequest(Message, api_key=89, versions="0-1", flexible="0+"):
    group_ids: tuple[str, ...] = array(string, "0+")
    include_authorized_operations: bool = boolean("0+")
    include_topology_description: bool = boolean("1+")


class KeyValue(Struct):
    key: str = string("0+")
    value: str = string("0+")


class TopicInfo(Struct):
    name: str = string("0+")
    partitions: int = int32("0+")
    replication_factor: int = int16("0+")
    topic_configs: tuple[KeyValue, ...] = array(KeyValue, "0+")


class Subtopology(Struct):
    subtopology_id: str = string("0+")
    source_topics: tuple[str, ...] = array(string, "0+")
    repartition_sink_topics: tuple[str, ...] = array(string, "0+")
    state_changelog_topics: tuple[TopicInfo, ...] = array(TopicInfo, "0+")
    repartition_source_topics: tuple[TopicInfo, ...] = array(TopicInfo, "0+")


class Topology(Struct):
    epoch: int = int32("0+")
    subtopologies: tuple[Subtopology, ...] | None = array(Subtopology, "0+", nullable="0+", default=None)


class Endpoint(Struct):
    host: str = string("0+")
    port: int = uint16("0+")


class TaskOffset(Struct):
    subtopology_id: str = string("0+")
    partition: int = int32("0+")
    offset: int = int64("0+")


class TaskIds(Struct):
    subtopology_id: str = string("0+")
    partitions: tuple[int, ...] = array(int32, "0+")


class Assignment(Struct):
    active_tasks: tuple[TaskIds, ...] = array(TaskIds, "0+")
    standby_tasks: tuple[TaskIds, ...] = array(TaskIds, "0+")
    warmup_tasks: tuple[TaskIds, ...] = array(TaskIds, "0+")


class Member(Struct):
    member_id: str = string("0+")
    member_epoch: int = int32("0+")
    instance_id: str | None = string("0+", nullable="0+", default=None)
    rack_id: str | None = string("0+", nullable="0+", default=None)
    client_id: str = string("0+")
    client_host: str = string("0+")
    topology_epoch: int = int32("0+")
    process_id: str = string("0+")
    user_endpoint: Endpoint | None = struct(Endpoint, "0+", nullable="0+")
    client_tags: tuple[KeyValue, ...] = array(KeyValue, "0+")
    task_offsets: tuple[TaskOffset, ...] = array(TaskOffset, "0+")
    task_end_offsets: tuple[TaskOffset, ...] = array(TaskOffset, "0+")
    assignment: Assignment = struct(Assignment, "0+")
    target_assignment: Assignment = struct(Assignment, "0+")
    is_classic: bool = boolean("0+")


class TopologyDescriptionNode(Struct):
    name: str = string("1+")
    node_type: int = int8("1+")
    source_topics: tuple[str, ...] = array(string, "1+")
    sink_topic: str | None = string("1+", nullable="1+", default=None)
    stores: tuple[str, ...] = array(string, "1+")
    successors: tuple[str, ...] = array(string, "1+")


class TopologyDescriptionSubtopology(Struct):
    subtopology_id: str = string("1+")
    nodes: tuple[TopologyDescriptionNode, ...] = array(TopologyDescriptionNode, "1+")


class TopologyDescriptionGlobalStore(Struct):
    source: TopologyDescriptionNode = struct(TopologyDescriptionNode, "1+")
    processor: TopologyDescriptionNode = struct(TopologyDescriptionNode, "1+")


class TopologyDescription(Struct):
    subtopologies: tuple[TopologyDescriptionSubtopology, ...] = array(TopologyDescriptionSubtopology, "1+")
    global_stores: tuple[TopologyDescriptionGlobalStore, ...] = array(TopologyDescriptionGlobalStore, "1+")


class DescribedGroup(Struct):
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)
    group_id: str = string("0+")
    group_state: str = string("0+")
    group_epoch: int = int32("0+")
    assignment_epoch: int = int32("0+")
    topology: Topology | None = struct(Topology, "0+", nullable="0+")
    members: tuple[Member, ...] = array(Member, "0+")
    authorized_operations: int = int32("0+", default=-2147483648)
    topology_description: TopologyDescription | None = struct(TopologyDescription, "1+", nullable="1+")
    topology_description_status: int = int8("1+")
    assignor_name: str | None = string("1+", nullable="1+", default=None)


class StreamsGroupDescribeResponse(Message, api_key=89, versions="0-1", flexible="0+"):
    throttle_time_ms: int = int32("0+")
    groups: tuple[DescribedGroup, ...] = array(DescribedGroup, "0+")
