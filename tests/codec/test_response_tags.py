"""Responses to Produce and Fetch, as kio writes them: with and without the brokers of KIP-951."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from support import oracle

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.message import Message
from kafka_sidecar.codec.messages.fetch import FetchResponse
from kafka_sidecar.codec.messages.produce import ProduceResponse
from kafka_sidecar.codec.response_status import tags_finder

BROKERS = [{"node_id": 1, "host": "b1", "port": 9092}]
TOPICS = {"a": UUID(int=1), "b": UUID(int=2)}
PRODUCED = [
    {"index": 1, "base_offset": 5, "record_errors": [{"batch_index": 1, "batch_index_error_message": "no"}]},
    {"index": 2, "error_message": "no"},
]
FETCHED = [
    {"partition_index": 1, "records": b"x" * 1000, "aborted_transactions": None},
    {"partition_index": 2, "records": None, "aborted_transactions": [{"producer_id": 4, "first_offset": 5}]},
]
FIRST_WITH_BROKERS = {ApiKey.PRODUCE: 10, ApiKey.FETCH: 16}
CASES = [
    *((ApiKey.PRODUCE, at, ProduceResponse, "name", "partition_responses", PRODUCED) for at in range(9, 14)),
    *((ApiKey.FETCH, at, FetchResponse, "topic", "partitions", FETCHED) for at in range(12, 19)),
]


def response(key: ApiKey, version: int, name: str, part: str, partitions: list[Any], brokers: list[Any]) -> bytes:
    topics = [{name: topic, "topic_id": number, part: partitions} for topic, number in TOPICS.items()]
    return oracle.response_frame(oracle.response(key, version, responses=topics, node_endpoints=brokers), 7)


@pytest.mark.parametrize(("key", "version", "message", "name", "part", "partitions"), CASES)
def test_a_response_with_brokers_differs_from_one_without(
    key: ApiKey, version: int, message: type[Message], name: str, part: str, partitions: list[Any]
) -> None:  # fmt: skip
    has_tags = tags_finder(message, version)
    for brokers in ([], BROKERS) if version >= FIRST_WITH_BROKERS[key] else ([],):
        frame = response(key, version, name, part, partitions, brokers)
        assert has_tags(b"before" + frame + b"after", 6, 6 + len(frame)) == bool(brokers)
    whole = response(key, version, name, part, partitions, [])
    for end in range(8, len(whole)):
        with pytest.raises(CodecError):
            has_tags(whole, 0, end)
