"""Metadata (3): the brokers, the topics, and the leaders of their partitions."""

from __future__ import annotations

from kafka_sidecar.codec.message import Message, Struct
from kafka_sidecar.codec.schema.fields import array, boolean, int16, int32, string, uuid

NOT_ASKED = -(2**31)  # authorized operations that were not requested


class MetadataRequestTopic(Struct):
    topic_id: bytes = uuid("10+")
    name: str | None = string("0+", nullable="10+")


class MetadataRequest(Message, api_key=3, versions="0-13", flexible="9+"):
    # Null asks for all topics; in version 0 an empty array does.
    topics: tuple[MetadataRequestTopic, ...] | None = array(MetadataRequestTopic, "0+", nullable="1+")
    allow_auto_topic_creation: bool = boolean("4+", default=True)
    include_cluster_authorized_operations: bool = boolean("8-10")
    include_topic_authorized_operations: bool = boolean("8+")


class MetadataResponseBroker(Struct):
    node_id: int = int32("0+")
    host: str = string("0+")
    port: int = int32("0+")
    rack: str | None = string("1+", nullable="1+", default=None)


class MetadataResponsePartition(Struct):
    error_code: int = int16("0+")
    partition_index: int = int32("0+")
    leader_id: int = int32("0+")
    leader_epoch: int = int32("7+", default=-1)
    replica_nodes: tuple[int, ...] = array(int32, "0+")
    isr_nodes: tuple[int, ...] = array(int32, "0+")
    offline_replicas: tuple[int, ...] = array(int32, "5+")


class MetadataResponseTopic(Struct):
    error_code: int = int16("0+")
    name: str | None = string("0+", nullable="12+")
    topic_id: bytes = uuid("10+")
    is_internal: bool = boolean("1+")
    partitions: tuple[MetadataResponsePartition, ...] = array(MetadataResponsePartition, "0+")
    topic_authorized_operations: int = int32("8+", default=NOT_ASKED)


class MetadataResponse(Message, api_key=3, versions="0-13", flexible="9+"):
    throttle_time_ms: int = int32("3+")
    brokers: tuple[MetadataResponseBroker, ...] = array(MetadataResponseBroker, "0+")
    cluster_id: str | None = string("2+", nullable="2+", default=None)
    controller_id: int = int32("1+", default=-1)
    topics: tuple[MetadataResponseTopic, ...] = array(MetadataResponseTopic, "0+")
    cluster_authorized_operations: int = int32("8-10", default=NOT_ASKED)
    error_code: int = int16("13+")
