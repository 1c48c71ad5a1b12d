"""What a client gets for partitions that were rejected (KIP-467), alone or beside the broker's answers for others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kafka_sidecar.codec.apis import ErrorCode
from kafka_sidecar.codec.message import first_version, replace_fields
from kafka_sidecar.codec.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from kafka_sidecar.codec.scan import ProduceSpans
from kafka_sidecar.codec.wire import NO_ID

MAX_SHOWN_ERRORS = 3  # record errors in the message of a partition, as many as Kafka shows
FIRST_WITH_RECORD_ERRORS = first_version(PartitionProduceResponse, "record_errors")


@dataclass(frozen=True, slots=True)
class PartitionRejection:
    """Why nothing of one partition's records is written."""

    error_code: int
    message: str  # for the client; quotes no contents
    record_errors: tuple[tuple[int, str], ...] = ()  # (index in the client's batch, message), by index


# Clients look it up again.
UNKNOWN_TOPIC = PartitionRejection(ErrorCode.UNKNOWN_TOPIC_ID, "the topic's id is not known here")

PartitionKey = tuple[str | bytes, int]  # the topic's name or id as the request has it, partition
Results = Mapping[PartitionKey, PartitionProduceResponse]
# The topics of a request in its order, and of each partition why it is rejected; None: the broker answers for it.
RejectedTopics = Sequence[tuple[str | bytes, Sequence[tuple[int, PartitionRejection | None]]]]


def summarize(messages: Sequence[str]) -> str:
    """The error message of a partition of which these are the record errors, in the words of Kafka's own.

    >>> summarize(["json: Topic orders requires record values to be JSON: ends too early at byte 26"])
    'json: Topic orders requires record values to be JSON: ends too early at byte 26'
    """
    if len(messages) == 1:
        return messages[0]
    return (
        f"One or more records have been rejected due to {len(messages)} record errors in total, "
        f"and only showing the first three errors at most: [{', '.join(messages[:MAX_SHOWN_ERRORS])}]"
    )


def without_errors(rejection: PartitionRejection) -> PartitionRejection:
    """The same with the first of its record errors alone, and their number."""
    at, first = rejection.record_errors[0]
    count = len(rejection.record_errors)
    message = f"One or more records have been rejected due to {count} record errors in total, the first is: {first}"
    return PartitionRejection(rejection.error_code, message, ((at, first),))


def name_rejected(spans: ProduceSpans, rejections: Mapping[tuple[int, int], PartitionRejection]) -> RejectedTopics:
    """All that is needed of a request to answer it, with what was rejected by index of topic and of partition."""
    return [
        (topic.key, [(one.index, rejections.get((topic_at, at))) for at, one in enumerate(topic.partitions)])
        for topic_at, topic in enumerate(spans.topics)
    ]


def with_rejected(response: ProduceResponse, rejected: RejectedTopics, version: int) -> ProduceResponse:
    """The broker's response to what was left of the request, with the rejected partitions in the request's order."""
    return replace_fields(response, responses=_merge(rejected, response.responses, version))


def _key(topic: TopicProduceResponse) -> str | bytes:
    return topic.name or topic.topic_id


def _merge(
    rejected: RejectedTopics, answered: Sequence[TopicProduceResponse], version: int
) -> tuple[TopicProduceResponse, ...]:
    topics = {_key(topic): topic for topic in answered}
    partitions = {  # a topic that is named twice may be answered once or twice
        (_key(topic), one.index): one for topic in answered for one in topic.partition_responses
    }
    merged = []
    for key, asked in rejected:
        name, topic_id = ("", key) if isinstance(key, bytes) else (key, NO_ID)
        topic = topics.get(key) or TopicProduceResponse(name=name, topic_id=topic_id)
        both = (_reject(index, why, version) if why else partitions.get((key, index)) for index, why in asked)
        merged.append(replace_fields(topic, partition_responses=tuple(one for one in both if one is not None)))
    return tuple(merged)


def _reject(index: int, why: PartitionRejection, version: int) -> PartitionProduceResponse:
    """As this version says it: older ones have no room for messages."""
    explained = version >= FIRST_WITH_RECORD_ERRORS
    return PartitionProduceResponse(
        index=index,
        error_code=why.error_code,
        base_offset=-1,
        log_append_time_ms=-1,
        log_start_offset=-1,
        record_errors=tuple(
            BatchIndexAndErrorMessage(batch_index=at, batch_index_error_message=message)
            for at, message in why.record_errors
        )
        if explained
        else (),
        error_message=why.message if explained else None,
    )
