"""ConsumerGroupHeartbeat (68): the response to a member of a group (KIP-848)."""

from __future__ import annotations

from kafka_sidecar.codec.message import Message, Struct
from kafka_sidecar.codec.schema.fields import array, int16, int32, string, struct, uuid


class TopicPartitions(Struct):
    topic_id: bytes = uuid("0+")
    partitions: tuple[int, ...] = array(int32, "0+")


class Assignment(Struct):
    topic_partitions: tuple[TopicPartitions, ...] = array(TopicPartitions, "0+")


class ConsumerGroupHeartbeatResponse(Message, api_key=68, versions="0-1", flexible="0+"):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)
    member_id: str | None = string("0+", nullable="0+", default=None)
    member_epoch: int = int32("0+")
    heartbeat_interval_ms: int = int32("0+")
    assignment: Assignment | None = struct(Assignment, "0+", nullable="0+")
