"""ShareFetch responses as a whole: what passes unchanged, unknown topics, brokers that they name."""

from __future__ import annotations

from functools import partial

import pytest
from support.client import FakeClient
from support.dialogue import Dialogue
from support.driven import driven
from support.features import started
from support.interception import Intercepting, values_in
from support.produce_requests import batch, topic_id
from support.share_fetches import acquired_in, begin, partition, partitions_in, share_request, share_response

from kafka_sidecar.proxy.exchanges.limits import Limits
from kafka_sidecar.proxy.exchanges.share_fetch import LimitedResponse
from kafka_sidecar.proxy.relay.exchange import TopicNames

UNKNOWN_TOPIC_ID = 100


@pytest.mark.parametrize("version", [1, 2])
def test_a_response_that_no_interceptor_changes_is_the_same_object(version: int) -> None:
    frame = share_response(version, {"orders": [partition(batch("keep"), (0, 0))], "free": [partition(b"noise")]})
    assert begin(Intercepting("Reads"), version).response(frame) is frame
    empty = share_response(version, {})
    assert begin(Intercepting("Reads"), version).response(empty) is empty


def test_records_of_a_topic_whose_name_is_unknown_are_not_sent() -> None:
    exchange = begin(Intercepting("Hides"))
    frame = share_response(1, {"who": [partition(batch("secret"), (0, 0)), partition(b"")]})
    assert exchange.response(frame) == TopicNames((topic_id("who"),))
    found = partitions_in(1, exchange.answer())
    one = found["who", 0]
    assert (one.records, acquired_in(one), one.error_code) == (b"", [], UNKNOWN_TOPIC_ID)
    assert found["who", 1].error_code == 0


@pytest.mark.parametrize("cut", [0, 70])
def test_brokers_in_a_response_that_is_looked_into_are_the_sidecars(cut: int) -> None:
    talk = Dialogue(exchange=started({"type": "support.interception:Reads", "topics": ["orders"]}).exchange)
    talk.client(share_request(1))
    nodes = [{"node_id": 3, "host": "broker.internal", "port": 9092}]
    frame = share_response(1, {"orders": [partition(batch("edit"), (0, 0))]}, node_endpoints=nodes)
    talk.broker(frame[:cut], frame[cut:])
    assert values_in(partitions_in(1, talk.to_client)["orders", 0].records) == [(0, b"edited")]
    assert b"broker.internal" not in talk.to_client
    assert b"sidecar.local" in talk.to_client


def test_a_topic_whose_name_the_cluster_knows_is_intercepted() -> None:
    intercepting = Intercepting("Reads", names=())
    exchange = begin(intercepting)
    frame = share_response(1, {"orders": [partition(batch("edit"), (0, 0))]})
    assert exchange.response(frame) == TopicNames((topic_id("orders"),))
    intercepting.topics.remember([(topic_id("orders"), "orders")])
    assert values_in(partitions_in(1, exchange.answer())["orders", 0].records) == [(0, b"edited")]


@pytest.mark.parametrize("version", [1, 2])
def test_a_request_asks_for_no_more_than_may_be_buffered(version: int) -> None:
    exchange = driven(partial(LimitedResponse, Limits(max_response=1000)), version=version, client=FakeClient())
    assert exchange is not None
    assert exchange.request(share_request(version)) == share_request(version, max_bytes=1000)
    small = share_request(version, max_bytes=999)
    assert exchange.request(small) is small
