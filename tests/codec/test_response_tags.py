"""Responses to Produce and Fetch, as kio writes them: with and without the brokers of KIP-951."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from support import oracle

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.response_tags import fetched_has_tags, produced_has_tags

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
CASES = [
    *((ApiKey.PRODUCE, at, produced_has_tags, "name", "partition_responses", PRODUCED) for at in (10, 12, 13)),
    *((ApiKey.FETCH, at, fetched_has_tags, "topic", "partitions", FETCHED) for at in (16, 17, 18)),
]


def response(key: ApiKey, version: int, name: str, part: str, partitions: list[Any], brokers: list[Any]) -> bytes:
    topics = [{name: topic, "topic_id": number, part: partitions} for topic, number in TOPICS.items()]
    return oracle.response_frame(oracle.response(key, version, responses=topics, node_endpoints=brokers), 7)


@pytest.mark.parametrize(("key", "version", "has_tags", "name", "part", "partitions"), CASES)
def test_a_response_with_brokers_differs_from_one_without(
    key: ApiKey, version: int, has_tags: Callable[[bytes, int, int, int], bool], name: str, part: str,
    partitions: list[Any],
) -> None:  # fmt: skip
    for brokers in ([], BROKERS):
        frame = response(key, version, name, part, partitions, brokers)
        assert has_tags(b"before" + frame + b"after", 6, 6 + len(frame), version) == bool(brokers)
    whole = response(key, version, name, part, partitions, [])
    for end in range(8, len(whole)):
        with pytest.raises(CodecError):
            has_tags(whole, 0, end, version)
