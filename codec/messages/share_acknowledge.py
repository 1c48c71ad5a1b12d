"""ShareAcknowledge (79): the results of processing records that were acquired through a share group (KIP-932)."""

from __future__ import annotations

from kafka_sidecar.codec.message import Message, Struct
from kafka_sidecar.codec.schema.fields import array, boolean, int8, int16, int32, int64, string, struct, uuid


class AcknowledgementBatch(Struct):
    first_offset: int = int64("0+")
    last_offset: int = int64("0+")
    acknowledge_types: tuple[int, ...] = array(int8, "0+")


class AcknowledgePartition(Struct):
    partition_index: int = int32("0+")
    acknowledgement_batches: tuple[AcknowledgementBatch, ...] = array(AcknowledgementBatch, "0+")


class AcknowledgeTopic(Struct):
    topic_id: bytes = uuid("0+")
    partitions: tuple[AcknowledgePartition, ...] = array(AcknowledgePartition, "0+")


class ShareAcknowledgeRequest(Message, api_key=79, versions="1-2", flexible="0+"):
    group_id: str | None = string("0+", nullable="0+", default=None)
    member_id: str | None = string("0+", nullable="0+")
    share_session_epoch: int = int32("0+")
    is_renew_ack: bool = boolean("2+", default=False)
    topics: tuple[AcknowledgeTopic, ...] = array(AcknowledgeTopic, "0+")


class LeaderIdAndEpoch(Struct):
    leader_id: int = int32("0+")
    leader_epoch: int = int32("0+")


class PartitionData(Struct):
    partition_index: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)
    current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch, "0+")


class ShareAcknowledgeTopicResponse(Struct):
    topic_id: bytes = uuid("0+")
    partitions: tuple[PartitionData, ...] = array(PartitionData, "0+")


class NodeEndpoint(Struct):
    node_id: int = int32("0+")
    host: str = string("0+")
    port: int = int32("0+")
    rack: str | None = string("0+", nullable="0+", default=None)


class ShareAcknowledgeResponse(Message, api_key=79, versions="1-2", flexible="0+"):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)
    acquisition_lock_timeout_ms: int = int32("2+")
    responses: tuple[ShareAcknowledgeTopicResponse, ...] = array(ShareAcknowledgeTopicResponse, "0+")
    node_endpoints: tuple[NodeEndpoint, ...] = array(NodeEndpoint, "0+")
