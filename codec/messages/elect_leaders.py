"""ElectLeaders (43): leaders of partitions to be elected (KIP-460)."""

from __future__ import annotations

from kafka_sidecar.codec.message import Message, Struct
from kafka_sidecar.codec.schema.fields import array, int8, int16, int32, string


class TopicPartitions(Struct):
    topic: str = string("0+")
    partitions: tuple[int, ...] = array(int32, "0+")


class ElectLeadersRequest(Message, api_key=43, versions="0-2", flexible="2+"):
    election_type: int = int8("1+")
    topic_partitions: tuple[TopicPartitions, ...] | None = array(TopicPartitions, "0+", nullable="0+")
    timeout_ms: int = int32("0+", default=60000)


class PartitionResult(Struct):
    partition_id: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")


class ReplicaElectionResult(Struct):
    topic: str = string("0+")
    partition_result: tuple[PartitionResult, ...] = array(PartitionResult, "0+")


class ElectLeadersResponse(Message, api_key=43, versions="0-2", flexible="2+"):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("1+")
    replica_election_results: tuple[ReplicaElectionResult, ...] = array(ReplicaElectionResult, "0+")
