"""OffsetForLeaderEpoch (23): the last offset of a leader epoch."""

from __future__ import annotations

from kafka_sidecar.codec.message import Message, Struct
from kafka_sidecar.codec.schema.fields import array, int16, int32, int64, string


class OffsetForLeaderPartition(Struct):
    partition: int = int32("0+")
    current_leader_epoch: int = int32("2+", default=-1)
    leader_epoch: int = int32("0+")


class OffsetForLeaderTopic(Struct):
    topic: str = string("0+")
    partitions: tuple[OffsetForLeaderPartition, ...] = array(OffsetForLeaderPartition, "0+")


class OffsetForLeaderEpochRequest(Message, api_key=23, versions="2-4", flexible="4+"):
    replica_id: int = int32("3+", default=-2)
    topics: tuple[OffsetForLeaderTopic, ...] = array(OffsetForLeaderTopic, "0+")


class EpochEndOffset(Struct):
    error_code: int = int16("0+")
    partition: int = int32("0+")
    leader_epoch: int = int32("1+", default=-1)
    end_offset: int = int64("0+", default=-1)


class OffsetForLeaderTopicResult(Struct):
    topic: str = string("0+")
    partitions: tuple[EpochEndOffset, ...] = array(EpochEndOffset, "0+")


class OffsetForLeaderEpochResponse(Message, api_key=23, versions="2-4", flexible="4+"):
    throttle_time_ms: int = int32("2+")
    topics: tuple[OffsetForLeaderTopicResult, ...] = array(OffsetForLeaderTopicResult, "0+")
