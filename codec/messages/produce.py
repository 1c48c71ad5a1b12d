"""Produce (0): record batches to append, and their base offsets. Brokers before 4.0 take versions 0 to 2 too."""

from __future__ import annotations

from kafka_sidecar.codec.message import Message, Struct
from kafka_sidecar.codec.schema.fields import array, int16, int32, int64, record_set, string, struct, uuid


class PartitionProduceData(Struct):
    index: int = int32("0+")
    records: bytes | memoryview | None = record_set("0+", nullable="0+")


class TopicProduceData(Struct):
    name: str = string("0-12")
    topic_id: bytes = uuid("13+")
    partition_data: tuple[PartitionProduceData, ...] = array(PartitionProduceData, "0+")


class ProduceRequest(Message, api_key=0, versions="0-13", flexible="9+"):
    transactional_id: str | None = string("3+", nullable="3+", default=None)
    acks: int = int16("0+")
    timeout_ms: int = int32("0+")
    topic_data: tuple[TopicProduceData, ...] = array(TopicProduceData, "0+")


class BatchIndexAndErrorMessage(Struct):
    batch_index: int = int32("8+")
    batch_index_error_message: str | None = string("8+", nullable="8+", default=None)


class LeaderIdAndEpoch(Struct):
    leader_id: int = int32("10+", default=-1)
    leader_epoch: int = int32("10+", default=-1)


class PartitionProduceResponse(Struct):
    index: int = int32("0+")
    error_code: int = int16("0+")
    base_offset: int = int64("0+")
    log_append_time_ms: int = int64("2+", default=-1)
    log_start_offset: int = int64("5+", default=-1)
    record_errors: tuple[BatchIndexAndErrorMessage, ...] = array(BatchIndexAndErrorMessage, "8+")
    error_message: str | None = string("8+", nullable="8+", default=None)
    current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch, "10+", tag=0)


class TopicProduceResponse(Struct):
    name: str = string("0-12")
    topic_id: bytes = uuid("13+")
    partition_responses: tuple[PartitionProduceResponse, ...] = array(PartitionProduceResponse, "0+")


class NodeEndpoint(Struct):
    node_id: int = int32("10+")
    host: str = string("10+")
    port: int = int32("10+")
    rack: str | None = string("10+", nullable="10+", default=None)


class ProduceResponse(Message, api_key=0, versions="0-13", flexible="9+"):
    responses: tuple[TopicProduceResponse, ...] = array(TopicProduceResponse, "0+")
    throttle_time_ms: int = int32("1+")
    node_endpoints: tuple[NodeEndpoint, ...] = array(NodeEndpoint, "10+", tag=0)
