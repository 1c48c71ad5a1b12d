"""DescribeQuorum (55): voters and observers of the metadata quorum, and the listeners of its controllers (KIP-595)."""

from __future__ import annotations

from kafka_sidecar.codec.message import Message, Struct
from kafka_sidecar.codec.schema.fields import array, int16, int32, int64, string, uint16, uuid


class ReplicaState(Struct):
    replica_id: int = int32("0+")
    replica_directory_id: bytes = uuid("2+")
    log_end_offset: int = int64("0+")
    last_fetch_timestamp: int = int64("1+", default=-1)
    last_caught_up_timestamp: int = int64("1+", default=-1)


class PartitionData(Struct):
    partition_index: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("2+", nullable="2+")
    leader_id: int = int32("0+")
    leader_epoch: int = int32("0+")
    high_watermark: int = int64("0+")
    current_voters: tuple[ReplicaState, ...] = array(ReplicaState, "0+")
    observers: tuple[ReplicaState, ...] = array(ReplicaState, "0+")


class TopicData(Struct):
    topic_name: str = string("0+")
    partitions: tuple[PartitionData, ...] = array(PartitionData, "0+")


class Listener(Struct):
    name: str = string("2+")
    host: str = string("2+")
    port: int = uint16("2+")


class Node(Struct):
    node_id: int = int32("2+")
    listeners: tuple[Listener, ...] = array(Listener, "2+")


class DescribeQuorumResponse(Message, api_key=55, versions="0-2", flexible="0+"):
    error_code: int = int16("0+")
    error_message: str | None = string("2+", nullable="2+")
    topics: tuple[TopicData, ...] = array(TopicData, "0+")
    nodes: tuple[Node, ...] = array(Node, "2+")  # KIP-853
