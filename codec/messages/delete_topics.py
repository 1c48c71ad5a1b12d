"""DeleteTopics (20): topics to delete, by name, from v6 on also by id (KIP-516). v0 is one of those that brokers before
4.0 take (KIP-896)."""

from __future__ import annotations

from kafka_sidecar.codec.message import Message, Struct
from kafka_sidecar.codec.schema.fields import array, int16, int32, string, uuid


class DeleteTopicState(Struct):
    name: str | None = string("6+", nullable="6+", default=None)
    topic_id: bytes = uuid("6+")


class DeleteTopicsRequest(Message, api_key=20, versions="0-6", flexible="4+"):
    topics: tuple[DeleteTopicState, ...] = array(DeleteTopicState, "6+")
    topic_names: tuple[str, ...] = array(string, "0-5")
    timeout_ms: int = int32("0+")


class DeletableTopicResult(Struct):
    # Null where the client knows the topic's id and may not know its name.
    name: str | None = string("0+", nullable="6+")
    topic_id: bytes = uuid("6+")
    error_code: int = int16("0+")
    error_message: str | None = string("5+", nullable="5+", default=None)


class DeleteTopicsResponse(Message, api_key=20, versions="0-6", flexible="4+"):
    throttle_time_ms: int = int32("1+")
    responses: tuple[DeletableTopicResult, ...] = array(DeletableTopicResult, "0+")
