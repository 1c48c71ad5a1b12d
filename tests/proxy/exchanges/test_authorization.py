"""Every API that a rule may deny: what is denied gets Kafka's error, the rest goes on. Read by kio."""

from __future__ import annotations

import uuid
from collections import Counter
from typing import Any

import pytest
from support import oracle
from support.client import FakeClient, exchange_of
from support.driven import Driven

from kafka_sidecar.codec.apis import APIS, ApiKey
from kafka_sidecar.proxy.config.authorization import AclRule
from kafka_sidecar.proxy.exchanges.acls import Acls
from kafka_sidecar.proxy.exchanges.authorization import TOPIC_OPERATIONS, Authorization, rules_of
from kafka_sidecar.proxy.exchanges.topic_apis import TOPIC_APIS
from kafka_sidecar.proxy.relay.exchange import Respond

TOPIC_DENIED, GROUP_DENIED = 29, 30
IDS = {"open": b"o" * 16, "closed": b"c" * 16}
RULES = [AclRule(principals=["User:alice"], topics=["open"], groups=["open"])]
NEW = [ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.OFFSET_COMMIT, ApiKey.TXN_OFFSET_COMMIT, ApiKey.CREATE_TOPICS]
GROUPS = [ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP, ApiKey.CONSUMER_GROUP_HEARTBEAT]


def pairs(*keys: ApiKey) -> list[tuple[ApiKey, int]]:
    newest = {ApiKey.TXN_OFFSET_COMMIT: 5}  # kio does not know version 6 yet
    return [
        (key, version)
        for key in keys
        for version in range(APIS[key].min_version, newest.get(key, APIS[key].max_version) + 1)
    ]


class Site:
    """What alice may do."""

    def __init__(self, principal: str | None = "User:alice") -> None:
        self.counts: Counter[str] = Counter()
        names = {topic_id: name for name, topic_id in IDS.items()}
        acls = Acls(rules_of(RULES), allowed_by_default=False)
        self.rules = Authorization(acls, None, names.get, self.counts)
        self.client = FakeClient()
        self.client.principal = principal

    def exchange(self, key: int, version: int) -> Driven:
        begin = self.rules.guard(key, version, None)
        assert begin is not None
        found = exchange_of(begin(b"", 0, 0, self.client))
        assert found is not None
        return Driven(found)


def request(key: int, version: int, *topics: str) -> bytes:
    partition = {"partition": 3, "partition_index": 3}
    named: list[dict[str, Any]] = [
        {"name": name, "topic": name, "topic_id": uuid.UUID(bytes=IDS[name]), "partitions": [partition]}
        for name in topics
    ]
    if key == ApiKey.CREATE_TOPICS:
        named = [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in topics]
    fields: dict[str, Any] = {"topics": named}
    if key in (ApiKey.OFFSET_COMMIT, ApiKey.TXN_OFFSET_COMMIT):
        fields["group_id"] = "open"
    return oracle.request_frame(oracle.request(key, version, **fields), 5)


def errors(key: int, version: int, frame: bytes) -> dict[object, int]:
    """Topic -> error code."""
    _, response = oracle.read_response(key, version, frame)
    found = {}
    for topic in getattr(response, TOPIC_APIS[key].results):
        name = getattr(topic, "name", None) or getattr(topic, "topic", None) or topic.topic_id.bytes
        (code,) = {one.error_code for one in getattr(topic, "partitions", (topic,))}
        found[name] = int(code)
    return found


@pytest.mark.parametrize(("key", "version"), pairs(*NEW))
def test_a_denied_topic_alone_is_answered_here(key: ApiKey, version: int) -> None:
    site = Site()
    step = site.exchange(key, version).request(request(key, version, "closed"))
    assert isinstance(step, Respond)
    assert list(errors(key, version, step.frame).values()) == [TOPIC_DENIED]
    assert site.counts == {APIS[key].name: 1}


@pytest.mark.parametrize(("key", "version"), pairs(*NEW))
def test_the_other_topics_go_on_and_the_denied_one_is_added_to_the_response(key: ApiKey, version: int) -> None:
    exchange = Site().exchange(key, version)
    sent = exchange.request(request(key, version, "open", "closed"))
    assert sent == request(key, version, "open")
    answered = exchange.response(oracle.response_frame(oracle.response(key, version), 5))
    assert isinstance(answered, bytes)
    assert list(errors(key, version, answered).values()) == [TOPIC_DENIED]


@pytest.mark.parametrize(("key", "version"), pairs(*NEW))
def test_what_is_allowed_is_forwarded_unread(key: ApiKey, version: int) -> None:
    exchange, frame = Site().exchange(key, version), request(key, version, "open")
    assert exchange.request(frame) is frame
    assert not exchange.wants_response


@pytest.mark.parametrize(("key", "version"), pairs(*GROUPS))
def test_a_denied_group_is_answered_here(key: ApiKey, version: int) -> None:
    site = Site()
    frame = oracle.request_frame(oracle.request(key, version, group_id="closed"), 5)
    step = site.exchange(key, version).request(frame)
    assert isinstance(step, Respond)
    correlation_id, response = oracle.read_response(key, version, step.frame)
    assert (correlation_id, response.error_code) == (5, GROUP_DENIED)
    allowed = oracle.request_frame(oracle.request(key, version, group_id="open"), 5)
    assert site.exchange(key, version).request(allowed) is allowed
    assert site.counts == {APIS[key].name: 1}


@pytest.mark.parametrize(("key", "version"), pairs(ApiKey.OFFSET_COMMIT))
def test_commits_of_a_denied_group_are_rejected_for_each_partition(key: ApiKey, version: int) -> None:
    topics = [
        {"name": name, "topic_id": uuid.UUID(bytes=IDS[name]), "partitions": [{"partition_index": 3}]} for name in IDS
    ]
    frame = oracle.request_frame(oracle.request(key, version, group_id="closed", topics=topics), 5)
    step = Site().exchange(key, version).request(frame)
    assert isinstance(step, Respond)
    assert list(errors(key, version, step.frame).values()) == [GROUP_DENIED, GROUP_DENIED]


def metadata(version: int, *topics: str) -> dict[str, tuple[int, int]]:
    """Topic -> error code and number of partitions, of a response with both topics."""
    asked = [{"name": name} for name in topics] if topics or not version else None
    exchange = Site().exchange(ApiKey.METADATA, version)
    sent = exchange.request(oracle.request_frame(oracle.request(ApiKey.METADATA, version, topics=asked), 5))
    assert isinstance(sent, bytes)
    assert b"closed" not in sent or topics == ("closed",)
    both = [
        {"name": name, "partitions": [{"partition_index": 0}]}
        for name in topics or IDS
        if name != "closed" or not topics
    ]
    answered = exchange.response(oracle.response_frame(oracle.response(ApiKey.METADATA, version, topics=both), 5))
    assert isinstance(answered, bytes)
    _, response = oracle.read_response(ApiKey.METADATA, version, answered)
    return {topic.name: (int(topic.error_code), len(topic.partitions)) for topic in response.topics}


@pytest.mark.parametrize(("key", "version"), pairs(ApiKey.METADATA))
def test_metadata_show_only_what_may_be_described(key: ApiKey, version: int) -> None:
    assert metadata(version) == {"open": (0, 1)}
    assert metadata(version, "open", "closed") == {"open": (0, 1), "closed": (TOPIC_DENIED, 0)}
    assert metadata(version, "closed") == {"closed": (TOPIC_DENIED, 0)}


def test_every_api_that_names_topics_needs_an_operation() -> None:
    assert TOPIC_OPERATIONS.keys() == {ApiKey.PRODUCE, *TOPIC_APIS}


def test_a_client_that_has_not_logged_in_has_no_rights_of_another() -> None:
    step = Site(None).exchange(ApiKey.LIST_OFFSETS, 7).request(request(ApiKey.LIST_OFFSETS, 7, "open"))
    assert isinstance(step, Respond)


def test_without_rules_only_the_protected_topic_is_denied() -> None:
    rules = Authorization(None, "kept", dict[bytes, str]().get, Counter())
    assert rules.guard(ApiKey.FETCH, 12, None) is None
    assert rules.guard(ApiKey.METADATA, 12, None) is None
    assert rules.topics.check(ApiKey.DELETE_TOPICS, "kept", "User:alice") is not None
    assert rules.topics.check(ApiKey.DELETE_TOPICS, "other", None) is None
