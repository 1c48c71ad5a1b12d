"""ShareFetch responses as kio writes and reads them, and exchanges with interceptors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.proxy.exchanges.share_fetch import AcquiredRecords
from kafka_sidecar.proxy.features.interception.consume_stage import ShareStage
from support import oracle
from support.driven import Driven, Step, driven
from support.interception import Intercepting
from support.produce_requests import topic_id

CORRELATION_ID = 7
Range = tuple[int, int]  # first and last offset
# Topic, partition: first and last offset, and the types of acknowledgements.
Acknowledged = Mapping[str, Mapping[int, Sequence[tuple[int, int, tuple[int, ...]]]]]


def partition(data: bytes, *acquired: Range, deliveries: int = 2, **more: Any) -> dict[str, Any]:
    ranges = [{"first_offset": first, "last_offset": last, "delivery_count": deliveries} for first, last in acquired]
    return {"records": data, "acquired_records": ranges, **more}


def acknowledging(key: int, version: int, group: str | None, topics: Acknowledged) -> bytes:
    """A ShareFetch or ShareAcknowledge request."""
    named = [
        {
            "topic_id": topic_id(name),
            "partitions": [
                {
                    "partition_index": index,
                    "acknowledgement_batches": [
                        {"first_offset": first, "last_offset": last, "acknowledge_types": types}
                        for first, last, types in batches
                    ],
                }
                for index, batches in partitions.items()
            ],
        }
        for name, partitions in topics.items()
    ]
    return oracle.request_frame(oracle.request(key, version, group_id=group, topics=named), CORRELATION_ID)


def acknowledged(version: int, errors: Mapping[str, Mapping[int, int]], error_code: int = 0) -> bytes:
    """A ShareAcknowledge response with the error codes of partitions."""
    data = [
        {
            "topic_id": topic_id(name),
            "partitions": [{"partition_index": index, "error_code": code} for index, code in partitions.items()],
        }
        for name, partitions in errors.items()
    ]
    entity = oracle.response(ApiKey.SHARE_ACKNOWLEDGE, version, responses=data, error_code=error_code)
    return oracle.response_frame(entity, CORRELATION_ID)


def share_response(version: int, topics: Mapping[str, Sequence[Mapping[str, Any]]], **more: Any) -> bytes:
    """The partitions of each topic, from 0 on."""
    data = [
        {
            "topic_id": topic_id(name),
            "partitions": [{"partition_index": at, **one} for at, one in enumerate(partitions)],
        }
        for name, partitions in topics.items()
    ]
    return oracle.response_frame(oracle.response(ApiKey.SHARE_FETCH, version, responses=data, **more), CORRELATION_ID)


def share_request(version: int, max_bytes: int = 1 << 20) -> bytes:
    asked = oracle.request(ApiKey.SHARE_FETCH, version, group_id="group", member_id="member", max_bytes=max_bytes)
    return oracle.request_frame(asked, CORRELATION_ID)


def begin(intercepting: Intercepting, version: int = 1) -> Driven:
    stage = ShareStage(intercepting.catalog.consumers, intercepting.services)
    records = AcquiredRecords([stage], intercepting.services.name_of)
    exchange = driven(records, version=version, client=intercepting.client)
    assert exchange is not None
    frame = share_request(version)
    assert exchange.request(frame) is frame
    assert exchange.wants_response
    return exchange


def partitions_in(version: int, frame: Step) -> dict[tuple[str, int], Any]:
    assert isinstance(frame, bytes)
    number, response = oracle.read_response(ApiKey.SHARE_FETCH, version, frame)
    assert number == CORRELATION_ID
    return {
        (topic.topic_id.bytes.lstrip(b"\1").decode(), one.partition_index): one
        for topic in response.responses
        for one in topic.partitions
    }


def acquired_in(partition: Any) -> list[Range]:
    assert {one.delivery_count for one in partition.acquired_records} <= {2}
    return [(one.first_offset, one.last_offset) for one in partition.acquired_records]
