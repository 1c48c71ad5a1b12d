"""OffsetCommit (8): offsets that a group commits. Brokers before 4.0 take versions 0 and 1 too."""

from __future__ import annotations

from kafka_sidecar.codec.message import Message, Struct
from kafka_sidecar.codec.schema.fields import array, int16, int32, int64, string, uuid


class OffsetCommitRequestPartition(Struct):
    partition_index: int = int32("0+")
    committed_offset: int = int64("0+")
    committed_leader_epoch: int = int32("6+", default=-1)
    commit_timestamp: int = int64("1", default=-1)
    committed_metadata: str | None = string("0+", nullable="0+")


class OffsetCommitRequestTopic(Struct):
    name: str = string("0-9")
    topic_id: bytes = uuid("10+")
    partitions: tuple[OffsetCommitRequestPartition, ...] = array(OffsetCommitRequestPartition, "0+")


class OffsetCommitRequest(Message, api_key=8, versions="0-10", flexible="8+"):
    group_id: str = string("0+")
    generation_id_or_member_epoch: int = int32("1+", default=-1)
    member_id: str = string("1+")
    group_instance_id: str | None = string("7+", nullable="7+", default=None)
    retention_time_ms: int = int64("2-4", default=-1)
    topics: tuple[OffsetCommitRequestTopic, ...] = array(OffsetCommitRequestTopic, "0+")


class OffsetCommitResponsePartition(Struct):
    partition_index: int = int32("0+")
    error_code: int = int16("0+")


class OffsetCommitResponseTopic(Struct):
    name: str = string("0-9")
    topic_id: bytes = uuid("10+")
    partitions: tuple[OffsetCommitResponsePartition, ...] = array(OffsetCommitResponsePartition, "0+")


class OffsetCommitResponse(Message, api_key=8, versions="0-10", flexible="8+"):
    throttle_time_ms: int = int32("3+")
    topics: tuple[OffsetCommitResponseTopic, ...] = array(OffsetCommitResponseTopic, "0+")
