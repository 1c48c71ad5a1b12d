"""DescribeProducers (61): the producers that are active in partitions (KIP-664)."""

from __future__ import annotations

from kafka_sidecar.codec.message import Message, Struct
from kafka_sidecar.codec.schema.fields import array, int16, int32, int64, string


class TopicRequest(Struct):
    name: str = string("0+")
    partition_indexes: tuple[int, ...] = array(int32, "0+")


class DescribeProducersRequest(Message, api_key=61, versions="0", flexible="0+"):
    topics: tuple[TopicRequest, ...] = array(TopicRequest, "0+")


class ProducerState(Struct):
    producer_id: int = int64("0+")
    producer_epoch: int = int32("0+")
    last_sequence: int = int32("0+", default=-1)
    last_timestamp: int = int64("0+", default=-1)
    coordinator_epoch: int = int32("0+")
    current_txn_start_offset: int = int64("0+", default=-1)


class PartitionResponse(Struct):
    partition_index: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)
    active_producers: tuple[ProducerState, ...] = array(ProducerState, "0+")


class TopicResponse(Struct):
    name: str = string("0+")
    partitions: tuple[PartitionResponse, ...] = array(PartitionResponse, "0+")


class DescribeProducersResponse(Message, api_key=61, versions="0", flexible="0+"):
    throttle_time_ms: int = int32("0+")
    topics: tuple[TopicResponse, ...] = array(TopicResponse, "0+")
