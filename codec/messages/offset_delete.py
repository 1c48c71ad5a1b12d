"""OffsetDelete (47): committed offsets of a group to be deleted (KIP-496)."""

from __future__ import annotations

from kafka_sidecar.codec.message import Message, Struct
from kafka_sidecar.codec.schema.fields import array, int16, int32, string


class OffsetDeleteRequestPartition(Struct):
    partition_index: int = int32("0+")


class OffsetDeleteRequestTopic(Struct):
    name: str = string("0+")
    partitions: tuple[OffsetDeleteRequestPartition, ...] = array(OffsetDeleteRequestPartition, "0+")


class OffsetDeleteRequest(Message, api_key=47, versions="0", flexible="none"):
    group_id: str = string("0+")
    topics: tuple[OffsetDeleteRequestTopic, ...] = array(OffsetDeleteRequestTopic, "0+")


class OffsetDeleteResponsePartition(Struct):
    partition_index: int = int32("0+")
    error_code: int = int16("0+")


class OffsetDeleteResponseTopic(Struct):
    name: str = string("0+")
    partitions: tuple[OffsetDeleteResponsePartition, ...] = array(OffsetDeleteResponsePartition, "0+")


class OffsetDeleteResponse(Message, api_key=47, versions="0", flexible="none"):
    error_code: int = int16("0+")
    throttle_time_ms: int = int32("0+")
    topics: tuple[OffsetDeleteResponseTopic, ...] = array(OffsetDeleteResponseTopic, "0+")
