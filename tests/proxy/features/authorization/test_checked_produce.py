"""Records for a denied topic are not written, by name or by id; those for other topics are."""

from __future__ import annotations

import time
from collections import Counter

import pytest
from support import old_requests
from support.authorization import without_id
from support.client import FakeClient, exchange_of
from support.driven import Driven
from support.produce_requests import (
    FIRST_WITH_IDS,
    GOOD,
    UNKNOWN_TOPIC_ID,
    VERSIONS,
    produce_request,
    produce_response,
    read,
    results,
    topic_id,
)

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.proxy.exchanges.produce import ProduceExchanges
from kafka_sidecar.proxy.features.authorization.checked_apis import Need
from kafka_sidecar.proxy.features.authorization.checks import CheckProduce, Rules
from kafka_sidecar.proxy.features.denials import Denials
from kafka_sidecar.proxy.relay.exchange import Last, Pass, Respond, TopicNames

DENIED, WHY = "kept", "kept is not for clients"
AUTHORIZATION_FAILED = 29
COUNTS: Counter[tuple[str, str, str]] = Counter()
each_version = pytest.mark.parametrize("version", VERSIONS)


@pytest.fixture
def names() -> dict[bytes, str]:
    return {topic_id(name): name for name in (DENIED, "orders")}


@pytest.fixture
def exchanges(names: dict[bytes, str]) -> ProduceExchanges:
    COUNTS.clear()

    def explain(key: int, need: Need, principal: str | None) -> str | None:
        assert key == ApiKey.PRODUCE
        return WHY if need.name == DENIED else None

    return ProduceExchanges([], names.get, guards=[CheckProduce(Rules(explain, names.get, Denials(COUNTS, time.time)))])


def begin(exchanges: ProduceExchanges, version: int, frame: bytes) -> Driven | None:
    exchange = exchange_of(exchanges.begin(version, frame, 0, len(frame), FakeClient()))
    return Driven(exchange) if exchange is not None else None


def started(exchanges: ProduceExchanges, version: int, frame: bytes) -> Driven:
    exchange = begin(exchanges, version, frame)
    assert exchange is not None
    return exchange


@each_version
def test_a_request_for_other_topics_is_not_buffered(exchanges: ProduceExchanges, version: int) -> None:
    assert begin(exchanges, version, produce_request(version, {"orders": {0: GOOD}})) is None
    frame = produce_request(version, {"orders": {0: GOOD}})
    assert isinstance(exchanges.begin(version, frame, 0, len(frame), FakeClient()), Pass)


@each_version
def test_records_for_a_denied_topic_alone_are_answered_here(exchanges: ProduceExchanges, version: int) -> None:
    frame = produce_request(version, {DENIED: {0: GOOD, 1: None}})
    step = started(exchanges, version, frame).request(frame)
    assert isinstance(step, Respond)
    assert results(version, step.frame) == [
        (DENIED, 0, AUTHORIZATION_FAILED, -1),
        (DENIED, 1, AUTHORIZATION_FAILED, -1),
    ]
    if version >= 8:
        (topic,) = read(version, step.frame).responses
        assert {without_id(one.error_message) for one in topic.partition_responses} == {WHY}
        assert all(not one.record_errors for one in topic.partition_responses)
    assert COUNTS == {("Produce", "write", "topic"): 1}


@each_version
def test_records_for_other_topics_of_the_request_are_written(exchanges: ProduceExchanges, version: int) -> None:
    frame = produce_request(version, {"orders": {0: GOOD}, DENIED: {0: GOOD}})
    exchange = started(exchanges, version, frame)
    assert exchange.request(frame) == produce_request(version, {"orders": {0: GOOD}})
    to_client = exchange.response(produce_response(version, {"orders": {0: 5}}))
    assert isinstance(to_client, bytes)
    assert results(version, to_client) == [("orders", 0, 0, 5), (DENIED, 0, AUTHORIZATION_FAILED, -1)]


@pytest.mark.parametrize("version", range(3))
def test_records_for_a_denied_topic_are_not_written_in_versions_that_kafka_4_dropped(
    exchanges: ProduceExchanges, version: int
) -> None:
    frame = produce_request(version, {"orders": {0: GOOD}, DENIED: {0: GOOD}})
    exchange = started(exchanges, version, frame)
    assert exchange.request(frame) == produce_request(version, {"orders": {0: GOOD}})
    to_client = exchange.response(old_requests.produce_response(version, {"orders": {0: (0, 5)}}))
    assert isinstance(to_client, bytes)
    found = old_requests.produce_results(version, to_client)
    assert found == [("orders", 0, 0, 5), (DENIED, 0, AUTHORIZATION_FAILED, -1)]


@each_version
def test_without_acks_the_connection_is_closed_as_a_broker_does(exchanges: ProduceExchanges, version: int) -> None:
    frame = produce_request(version, {"orders": {0: GOOD}, DENIED: {0: GOOD}}, acks=0)
    step = started(exchanges, version, frame).request(frame)
    assert isinstance(step, Last)
    assert step.frame == produce_request(version, {"orders": {0: GOOD}}, acks=0)
    assert without_id(step.detail).endswith(WHY)


def test_the_name_of_an_unknown_id_is_looked_up(exchanges: ProduceExchanges, names: dict[bytes, str]) -> None:
    version = FIRST_WITH_IDS
    del names[topic_id(DENIED)]
    frame = produce_request(version, {DENIED: {0: GOOD}})
    exchange = started(exchanges, version, frame)
    assert exchange.request(frame) == TopicNames((topic_id(DENIED),))
    names[topic_id(DENIED)] = DENIED
    step = exchange.answer()
    assert isinstance(step, Respond)
    assert results(version, step.frame) == [(DENIED, 0, AUTHORIZATION_FAILED, -1)]


def test_an_id_that_no_broker_knows_is_retriable(exchanges: ProduceExchanges) -> None:
    version = FIRST_WITH_IDS
    frame = produce_request(version, {"unknown": {0: GOOD}})
    exchange = started(exchanges, version, frame)
    exchange.request(frame)
    step = exchange.answer()
    assert isinstance(step, Respond)
    assert results(version, step.frame) == [("unknown", 0, UNKNOWN_TOPIC_ID, -1)]
    assert COUNTS == {}
