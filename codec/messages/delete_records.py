"""DeleteRecords (21): the offsets below which partitions delete their records (KIP-107)."""

from __future__ import annotations

from kafka_sidecar.codec.message import Message, Struct
from kafka_sidecar.codec.schema.fields import array, int16, int32, int64, string


class DeleteRecordsPartition(Struct):
    partition_index: int = int32("0+")
    offset: int = int64("0+")


class DeleteRecordsTopic(Struct):
    name: str = string("0+")
    partitions: tuple[DeleteRecordsPartition, ...] = array(DeleteRecordsPartition, "0+")


class DeleteRecordsRequest(Message, api_key=21, versions="0-2", flexible="2+"):
    topics: tuple[DeleteRecordsTopic, ...] = array(DeleteRecordsTopic, "0+")
    timeout_ms: int = int32("0+")


class DeleteRecordsPartitionResult(Struct):
    partition_index: int = int32("0+")
    low_watermark: int = int64("0+")
    error_code: int = int16("0+")


class DeleteRecordsTopicResult(Struct):
    name: str = string("0+")
    partitions: tuple[DeleteRecordsPartitionResult, ...] = array(DeleteRecordsPartitionResult, "0+")


class DeleteRecordsResponse(Message, api_key=21, versions="0-2", flexible="2+"):
    throttle_time_ms: int = int32("0+")
    topics: tuple[DeleteRecordsTopicResult, ...] = array(DeleteRecordsTopicResult, "0+")
