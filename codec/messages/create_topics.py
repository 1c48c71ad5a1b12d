"""CreateTopics (19): topics to create with configs, and the results. v0 and v1: brokers before 4.0 (KIP-896)."""

from __future__ import annotations

from kafka_sidecar.codec.message import Message, Struct
from kafka_sidecar.codec.schema.fields import array, boolean, int8, int16, int32, string, uuid


class CreatableReplicaAssignment(Struct):
    partition_index: int = int32("0+")
    broker_ids: tuple[int, ...] = array(int32, "0+")


class CreatableTopicConfig(Struct):
    name: str = string("0+")
    value: str | None = string("0+", nullable="0+")


class CreatableTopic(Struct):
    name: str = string("0+")
    num_partitions: int = int32("0+")
    replication_factor: int = int16("0+")
    assignments: tuple[CreatableReplicaAssignment, ...] = array(CreatableReplicaAssignment, "0+")
    configs: tuple[CreatableTopicConfig, ...] = array(CreatableTopicConfig, "0+")


class CreateTopicsRequest(Message, api_key=19, versions="0-7", flexible="5+"):
    topics: tuple[CreatableTopic, ...] = array(CreatableTopic, "0+")
    timeout_ms: int = int32("0+", default=60000)
    validate_only: bool = boolean("1+")


class CreatableTopicConfigs(Struct):
    name: str = string("5+")
    value: str | None = string("5+", nullable="5+")
    read_only: bool = boolean("5+")
    config_source: int = int8("5+", default=-1)
    is_sensitive: bool = boolean("5+")


class CreatableTopicResult(Struct):
    name: str = string("0+")
    topic_id: bytes = uuid("7+")
    error_code: int = int16("0+")
    error_message: str | None = string("1+", nullable="0+")
    topic_config_error_code: int = int16("5+", tag=0)
    num_partitions: int = int32("5+", default=-1)
    replication_factor: int = int16("5+", default=-1)
    # Null where the client may create the topic but not read its configs: see topic_config_error_code.
    configs: tuple[CreatableTopicConfigs, ...] | None = array(CreatableTopicConfigs, "5+", nullable="5+")


class CreateTopicsResponse(Message, api_key=19, versions="0-7", flexible="5+"):
    throttle_time_ms: int = int32("2+")
    topics: tuple[CreatableTopicResult, ...] = array(CreatableTopicResult, "0+")
