"""What Produce requests and their acknowledgements look like where records get a header."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.message import decode
from kafka_sidecar.codec.messages.produce import ProduceRequest, TopicProduceData
from kafka_sidecar.codec.records import Header, NewRecord, build_batch
from support import oracle
from support.produce_requests import (
    CORRELATION_ID,
    VERSIONS,
    topic_id,
)

FEWER = settings(max_examples=settings().max_examples // 3)
each_version = pytest.mark.parametrize("version", VERSIONS)
ADDED = ("added", b"yes")


def with_headers(*values: str, **header: Any) -> bytes:
    """What `Adds` makes of a batch of these."""
    new = [NewRecord(v.encode(), headers=() if v.startswith("keep") else (Header(*ADDED),)) for v in values]
    return build_batch(new, **header)


def offsets(acknowledged: list[Any]) -> list[int]:
    return [metadata.offset for metadata, _ in acknowledged]


def errors(acknowledged: list[Any]) -> list[tuple[str, int, bool] | None]:
    return [error and (str(error), error.code, error.retriable) for _, error in acknowledged]


def answer(version: int, **partition: Any) -> bytes:
    data = [{"name": "orders", "topic_id": topic_id("orders"), "partition_responses": [{"index": 0, **partition}]}]
    return oracle.response_frame(oracle.response(ApiKey.PRODUCE, version, responses=data), CORRELATION_ID)


def requested(version: int, frame: bytes) -> dict[str, dict[int, Any]]:
    """What a request of version 9 holds."""
    request, _ = decode(ProduceRequest, frame, version, 4 + 8 + 2 + 3 + 1)
    topics: tuple[TopicProduceData, ...] = request.topic_data
    return {topic.name: {one.index: one.records for one in topic.partition_data} for topic in topics}
