"""What a client is told of partitions that were refused (KIP-467), alone or beside what the broker says of others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kafka_sidecar.codec.apis import ApiKey, response_header_version
from kafka_sidecar.codec.headers import ResponseHeader
from kafka_sidecar.codec.message import decode, encode, replace_fields
from kafka_sidecar.codec.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from kafka_sidecar.proxy.relay.frames import LENGTH, framed

SHOWN = 3  # record errors in the message of a partition, as many as Kafka shows


@dataclass(frozen=True, slots=True)
class Refused:
    """Why nothing of one partition's records is written."""

    error_code: int
    message: str  # for the client; quotes no contents
    record_errors: tuple[tuple[int, str], ...] = ()  # (index in the client's batch, message), by index


# (index of the topic in the request, index of the partition in the topic) -> why it is refused
Refusals = Mapping[tuple[int, int], Refused]


def summary(messages: Sequence[str]) -> str:
    """The error message of a partition of which these are the record errors, in the words of Kafka's own.

    >>> summary(["json: Topic orders requires record values to be JSON: ends too early at byte 26"])
    'json: Topic orders requires record values to be JSON: ends too early at byte 26'
    """
    if len(messages) == 1:
        return messages[0]
    return (
        f"One or more records have been rejected due to {len(messages)} record errors in total, "
        f"and only showing the first three errors at most: [{', '.join(messages[:SHOWN])}]"
    )


def response_frame(request: ProduceRequest, version: int, correlation_id: int, refusals: Refusals) -> bytes:
    """The answer to a request of which every partition is refused."""
    header = ResponseHeader(correlation_id=correlation_id)
    return _framed(header, ProduceResponse(responses=_topics(request, refusals, ())), version)


def merged(frame: bytes, request: ProduceRequest, version: int, refusals: Refusals) -> bytes:
    """The broker's answer to what was left of the request, with the refused partitions in the request's order.

    Raises CodecError.
    """
    header, at = decode(ResponseHeader, frame, response_header_version(ApiKey.PRODUCE, version), LENGTH.size)
    response, _ = decode(ProduceResponse, frame, version, at)
    return _framed(header, replace_fields(response, responses=_topics(request, refusals, response.responses)), version)


def _topics(
    request: ProduceRequest, refusals: Refusals, said: Sequence[TopicProduceResponse]
) -> tuple[TopicProduceResponse, ...]:
    of_broker = {(topic.name, topic.topic_id): topic for topic in said}
    of_partitions = {  # a topic that is named twice may be answered once or twice
        (topic.name, topic.topic_id, one.index): one for topic in said for one in topic.partition_responses
    }
    topics = []
    for topic_at, topic in enumerate(request.topic_data):
        name, topic_id = topic.name, topic.topic_id
        answered = of_broker.get((name, topic_id)) or TopicProduceResponse(name=name, topic_id=topic_id)
        partitions = []
        for partition_at, partition in enumerate(topic.partition_data):
            refused = refusals.get((topic_at, partition_at))
            if refused is not None:
                partitions.append(_partition(partition.index, refused))
            elif (answer := of_partitions.get((name, topic_id, partition.index))) is not None:
                partitions.append(answer)
        topics.append(replace_fields(answered, partition_responses=tuple(partitions)))
    return tuple(topics)


def _partition(index: int, refused: Refused) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=index,
        error_code=refused.error_code,
        base_offset=-1,
        log_append_time_ms=-1,
        log_start_offset=-1,
        record_errors=tuple(
            BatchIndexAndErrorMessage(batch_index=at, batch_index_error_message=message)
            for at, message in refused.record_errors
        ),
        error_message=refused.message,
    )


def _framed(header: ResponseHeader, response: ProduceResponse, version: int) -> bytes:
    before = encode(header, response_header_version(ApiKey.PRODUCE, version))
    return framed(before, encode(response, version))
