"""Committed offsets are shown of groups and topics that may be described. Read by kio."""

from __future__ import annotations

import datetime
import uuid
from dataclasses import dataclass, field
from typing import Any

import pytest
from support import oracle
from support.authorization import GROUP_DENIED, IDS, TOPIC_DENIED, Site, pairs
from support.driven import driven

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.envelope import decode_response
from kafka_sidecar.codec.message import Message
from kafka_sidecar.codec.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from kafka_sidecar.plugins.effects import Steps, Work
from kafka_sidecar.proxy.exchanges.messages import MessageRun, OpenMessage
from kafka_sidecar.proxy.relay.exchange import Client, Respond, TopicNames

OFFSETS = pairs(ApiKey.OFFSET_FETCH)


def fetched(version: int, group: str, *topics: str) -> tuple[int, dict[str, int]]:
    """Error code of the group, and of each topic, of a broker that knows both topics."""
    named = [{"name": one, "topic_id": uuid.UUID(bytes=IDS[one]), "partition_indexes": [3]} for one in topics] or None
    fields: dict[str, Any] = {"group_id": group, "topics": named, "groups": [{"group_id": group, "topics": named}]}
    exchange = Site().exchange(ApiKey.OFFSET_FETCH, version)
    step = exchange.request(oracle.request_frame(oracle.request(ApiKey.OFFSET_FETCH, version, **fields), 5))
    if isinstance(step, bytes):
        assert group == "open"
        known = [
            {"name": one, "topic_id": uuid.UUID(bytes=IDS[one]), "partitions": [{"partition_index": 3}]}
            for one in IDS
            if IDS[one] in step or one.encode() in step[20:] or not topics
        ]
        fields = {"topics": known, "groups": [{"group_id": "open", "topics": known}]}
        frame = oracle.response_frame(oracle.response(ApiKey.OFFSET_FETCH, version, **fields), 5)
        answered = exchange.response(frame) if exchange.wants_response else frame
    else:
        assert isinstance(step, Respond)
        answered = step.frame
    assert isinstance(answered, bytes)
    _, response = oracle.read_response(ApiKey.OFFSET_FETCH, version, answered)
    (found,) = response.groups if version >= 8 else (response,)
    names = {uuid.UUID(bytes=topic_id): name for name, topic_id in IDS.items()}
    codes = {getattr(t, "name", None) or names[t.topic_id]: int(t.partitions[0].error_code) for t in found.topics}
    return int(getattr(found, "error_code", 0)), codes


@pytest.mark.parametrize(("key", "version"), OFFSETS)
def test_committed_offsets_of_what_may_not_be_described_are_not_shown(key: ApiKey, version: int) -> None:
    assert fetched(version, "open", "open") == (0, {"open": 0})
    assert fetched(version, "open", "open", "closed") == (0, {"open": 0, "closed": TOPIC_DENIED})
    if version >= 2:
        assert fetched(version, "open") == (0, {"open": 0})  # of all topics
        assert fetched(version, "closed", "open") == (GROUP_DENIED, {})
    else:
        assert fetched(version, "closed", "open") == (0, {"open": GROUP_DENIED})


def test_of_several_groups_whose_offsets_are_asked_for_the_denied_one_gets_an_error() -> None:
    groups = [{"group_id": name, "topics": None} for name in ("open", "closed")]
    exchange = Site().exchange(ApiKey.OFFSET_FETCH, 9)
    forwarded = exchange.request(oracle.request_frame(oracle.request(ApiKey.OFFSET_FETCH, 9, groups=groups), 5))
    assert forwarded == oracle.request_frame(oracle.request(ApiKey.OFFSET_FETCH, 9, groups=groups[:1]), 5)
    frame = oracle.response_frame(oracle.response(ApiKey.OFFSET_FETCH, 9, groups=[{"group_id": "open"}]), 5)
    answered = exchange.response(frame)
    assert isinstance(answered, bytes)
    found = oracle.read_response(ApiKey.OFFSET_FETCH, 9, answered)[1].groups
    assert [(group.group_id, int(group.error_code)) for group in found] == [("open", 0), ("closed", GROUP_DENIED)]


THROTTLED = datetime.timedelta(seconds=1.5)


@dataclass
class Next(MessageRun):
    """A stage that follows: answers itself, or sees the broker's response."""

    answer: Message | None
    lost_with: list[str] = field(default_factory=list)

    def __call__(self, client: Client, version: int) -> Next:
        return self

    @property
    def wants_response(self) -> bool:
        return True

    def request(self, request: OpenMessage) -> Steps[Message | None]:
        yield from request.read(OffsetFetchRequest)
        return self.answer

    def lost(self, why: str) -> Work | None:
        self.lost_with.append(why)
        return None


def both() -> bytes:
    """A response with both topics of the group that alice may describe."""
    topics = [{"name": name, "partitions": [{"partition_index": 3}]} for name in IDS]
    fields = {"throttle_time": THROTTLED, "groups": [{"group_id": "open", "topics": topics}]}
    return oracle.response_frame(oracle.response(ApiKey.OFFSET_FETCH, 9, **fields), 5)


def names_in(frame: Any) -> list[str]:
    assert isinstance(frame, bytes)
    (group,) = oracle.read_response(ApiKey.OFFSET_FETCH, 9, frame)[1].groups
    return [topic.name for topic in group.topics]


@pytest.mark.parametrize("answers", [True, False])
def test_the_answer_of_a_stage_that_follows_is_cut_too(answers: bool) -> None:
    answer = decode_response(OffsetFetchResponse, both(), 9).message if answers else None
    follows, site = Next(answer), Site()
    exchange = driven(*site.stages(ApiKey.OFFSET_FETCH), follows, version=9, client=site.client)
    assert exchange is not None
    asked = oracle.request(ApiKey.OFFSET_FETCH, 9, groups=[{"group_id": "open", "topics": None}])
    step = exchange.request(oracle.request_frame(asked, 5))
    if answers:
        assert isinstance(step, Respond)
        assert names_in(step.frame) == ["open"]
    else:
        answered = exchange.response(both())
        assert names_in(answered) == ["open"]
        assert isinstance(answered, bytes)
        _, response = oracle.read_response(ApiKey.OFFSET_FETCH, 9, answered)
        assert response.throttle_time == THROTTLED  # the broker's
        exchange.lost("the broker has gone")
        assert follows.lost_with == ["the broker has gone"]


def test_the_name_of_an_id_is_looked_up_before_it_is_decided() -> None:
    unknown = uuid.UUID(bytes=b"u" * 16)
    topics = [{"topic_id": unknown, "partition_indexes": [3]}]
    asked = oracle.request(ApiKey.OFFSET_FETCH, 10, groups=[{"group_id": "open", "topics": topics}])
    exchange = Site().exchange(ApiKey.OFFSET_FETCH, 10)
    assert exchange.request(oracle.request_frame(asked, 5)) == TopicNames((unknown.bytes,))
    exchange.answer()
    empty = oracle.response(ApiKey.OFFSET_FETCH, 10, groups=[{"group_id": "open", "topics": []}])
    answered = exchange.response(oracle.response_frame(empty, 5))
    assert isinstance(answered, bytes)
    (group,) = oracle.read_response(ApiKey.OFFSET_FETCH, 10, answered)[1].groups
    assert [int(topic.partitions[0].error_code) for topic in group.topics] == [100]  # UNKNOWN_TOPIC_ID


def test_a_topic_without_a_name_and_an_id_has_the_brokers_error() -> None:
    topics = [{"topic_id": uuid.UUID(int=0), "partition_indexes": [3]}, {"topic_id": uuid.UUID(bytes=IDS["closed"])}]
    asked = oracle.request(ApiKey.OFFSET_FETCH, 10, groups=[{"group_id": "open", "topics": topics}])
    exchange = Site().exchange(ApiKey.OFFSET_FETCH, 10)
    assert isinstance(exchange.request(oracle.request_frame(asked, 5)), bytes)
    unknown = [{"topic_id": uuid.UUID(int=0), "partitions": [{"partition_index": 3, "error_code": 100}]}]
    found = oracle.response(ApiKey.OFFSET_FETCH, 10, groups=[{"group_id": "open", "topics": unknown}])
    answered = exchange.response(oracle.response_frame(found, 5))
    assert isinstance(answered, bytes)
    (group,) = oracle.read_response(ApiKey.OFFSET_FETCH, 10, answered)[1].groups
    assert [topic.topic_id for topic in group.topics] == [None, uuid.UUID(bytes=IDS["closed"])]
