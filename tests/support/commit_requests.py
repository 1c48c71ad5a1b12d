"""Commits of a group as kio writes and reads them, and exchanges with an interceptor that does what a test says.

kio does not know TxnOffsetCommit v6, which gives topics by their ids as OffsetCommit v10 does.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from kio.index import load_request_schema
from kio.serial import entity_reader

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.plugins.values import OffsetAndMetadata, Offsets, TopicPartition
from kafka_sidecar.proxy.exchanges.commits import Commits as CommitsStage
from kafka_sidecar.proxy.exchanges.limits import DEFAULT_LIMITS, Limits
from kafka_sidecar.proxy.features.interception.consume_stage import CommitStage
from support import oracle
from support.driven import Driven, Step, driven
from support.interception import Commits, Given, Intercepting
from support.produce_requests import topic_id

T = TypeVar("T")

PLAIN, IN_TRANSACTION = ApiKey.OFFSET_COMMIT, ApiKey.TXN_OFFSET_COMMIT
FIRST_WITH_IDS: dict[int, int] = {PLAIN: 10, IN_TRANSACTION: 6}
FIRST_WITH_EPOCHS: dict[int, int] = {PLAIN: 6, IN_TRANSACTION: 2}
FIRST_THAT_JOINS = 5  # of TxnOffsetCommit (KIP-890)
VERSIONS = [(PLAIN, version) for version in range(2, 11)] + [(IN_TRANSACTION, version) for version in range(6)]
CORRELATION_ID = 7

Offset = tuple[int, str | None]  # with its metadata
OffsetsByTopic = Mapping[str, Mapping[int, Offset]]
CodesByTopic = Mapping[str, Mapping[int, int]]
THREE: OffsetsByTopic = {"orders": {0: (10, "mine"), 1: (20, None)}, "free": {3: (30, "")}}
THREE_SUCCEEDED: CodesByTopic = {"orders": {0: 0, 1: 0}, "free": {3: 0}}


def commit_request(key: int, version: int, topics: OffsetsByTopic, epoch: int = 4) -> bytes:
    data = [
        {
            "name": name,
            "topic_id": topic_id(name),
            "partitions": [
                {
                    "partition_index": index,
                    "committed_offset": offset,
                    "committed_leader_epoch": epoch,
                    "committed_metadata": metadata,
                }
                for index, (offset, metadata) in partitions.items()
            ],
        }
        for name, partitions in topics.items()
    ]
    request = oracle.request(
        key,
        version,
        group_id="g",
        member_id="m",
        group_instance_id="i",
        generation_id=3,
        generation_id_or_member_epoch=3,
        transactional_id="tx",
        producer_id=9,
        producer_epoch=1,
        topics=data,
    )
    return oracle.request_frame(request, CORRELATION_ID)


def offsets_in(key: int, version: int, frame: Step) -> dict[str, dict[int, Offset]]:
    """What a request commits."""
    return _partitions_in(key, version, frame, lambda one: (one.committed_offset, one.committed_metadata))


def epochs_in(key: int, version: int, frame: Step) -> dict[str, dict[int, int]]:
    """The leader epochs that a request commits."""
    return _partitions_in(key, version, frame, lambda one: int(one.committed_leader_epoch))


def _partitions_in(key: int, version: int, frame: Step, part: Callable[[Any], T]) -> dict[str, dict[int, T]]:
    assert isinstance(frame, bytes)
    kind = load_request_schema(key, version)
    _, size = entity_reader(kind.__header_schema__)(frame[4:], 0)
    reader: Any = entity_reader(kind)
    request, end = reader(frame[4 + size :], 0)
    assert 4 + size + end == len(frame)
    found: dict[str, dict[int, T]] = {}
    for topic in request.topics:
        into = found.setdefault(_name_of(key, version, topic), {})
        into |= {one.partition_index: part(one) for one in topic.partitions}
    return found


def commit_response(key: int, version: int, codes: CodesByTopic) -> bytes:
    """A coordinator's response."""
    data = [
        {
            "name": name,
            "topic_id": topic_id(name),
            "partitions": [{"partition_index": index, "error_code": code} for index, code in partitions.items()],
        }
        for name, partitions in codes.items()
    ]
    return oracle.response_frame(oracle.response(key, version, topics=data), CORRELATION_ID)


def codes_in(key: int, version: int, frame: Step) -> list[tuple[str, int, int]]:
    """(topic, partition, error code), in the order of the response."""
    assert isinstance(frame, bytes)
    correlation_id, response = oracle.read_response(key, version, frame)
    assert correlation_id == CORRELATION_ID
    return [
        (_name_of(key, version, topic), one.partition_index, int(one.error_code))
        for topic in response.topics
        for one in topic.partitions
    ]


def _name_of(key: int, version: int, topic: Any) -> str:
    if version < FIRST_WITH_IDS[key]:
        return str(topic.name)
    assert isinstance(topic.topic_id, uuid.UUID)
    return topic.topic_id.bytes.lstrip(b"\1").decode()


def begin_commit(intercepting: Intercepting, key: int, version: int, limits: Limits = DEFAULT_LIMITS) -> Driven:
    services = intercepting.services
    stages = [CommitStage(intercepting.catalog.committers, intercepting.stats.commits)]
    commits = CommitsStage(key, stages, services.name_of, services.clock)
    found = driven(commits, version=version, client=intercepting.client, limits=limits)
    assert found is not None
    return found


def place(topic: str, partition: int) -> TopicPartition:
    return TopicPartition(topic, partition)


def intercept(change: Callable[[Offsets], Given] | None = None, **settings: Any) -> tuple[Intercepting, Commits]:
    intercepting = Intercepting("Commits", topics=("*",), **settings)
    (interceptor,) = intercepting.interceptors
    if change is not None:
        interceptor.change = change
    return intercepting, interceptor


def without(*places: tuple[str, int]) -> Callable[[Offsets], Given]:
    return lambda offsets: {at: offset for at, offset in offsets.items() if at not in places}


def more(topic: str, partition: int, offset: int) -> Callable[[Offsets], Given]:
    return lambda offsets: {**offsets, place(topic, partition): OffsetAndMetadata(offset, "generated", 2)}
