"""ListPartitionReassignments (46): replicas that are being moved (KIP-455)."""

from __future__ import annotations

from kafka_sidecar.codec.message import Message, Struct
from kafka_sidecar.codec.schema.fields import array, int16, int32, string


class OngoingPartitionReassignment(Struct):
    partition_index: int = int32("0+")
    replicas: tuple[int, ...] = array(int32, "0+")
    adding_replicas: tuple[int, ...] = array(int32, "0+")
    removing_replicas: tuple[int, ...] = array(int32, "0+")


class OngoingTopicReassignment(Struct):
    name: str = string("0+")
    partitions: tuple[OngoingPartitionReassignment, ...] = array(OngoingPartitionReassignment, "0+")


class ListPartitionReassignmentsResponse(Message, api_key=46, versions="0", flexible="0+"):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    topics: tuple[OngoingTopicReassignment, ...] = array(OngoingTopicReassignment, "0+")
