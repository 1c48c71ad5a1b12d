"""Topics of commits: those that are added, and how they are given: by names, or by ids whose names are looked up."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from support import oracle
from support.commit_requests import (
    FIRST_WITH_IDS,
    IN_TRANSACTION,
    PLAIN,
    THREE,
    THREE_SUCCEEDED,
    VERSIONS,
    begin_commit,
    codes_in,
    commit_request,
    commit_response,
    intercept,
    more,
    offsets_in,
    place,
    without,
)
from support.produce_requests import topic_id

from kafka_sidecar.codec.message import encode, replace_fields
from kafka_sidecar.codec.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kafka_sidecar.proxy.relay.exchange import TopicIds, TopicNames

each_version = pytest.mark.parametrize(("key", "version"), VERSIONS)


@each_version
def test_an_added_offset_is_sent_and_omitted_from_the_response(key: int, version: int) -> None:
    intercepting, interceptor = intercept(more("payments", 7, 70))
    exchange = begin_commit(intercepting, key, version)
    step = exchange.request(commit_request(key, version, THREE))
    if version >= FIRST_WITH_IDS[key]:
        assert step == TopicIds(("payments",))
        step = exchange.answer({"payments": topic_id("payments")})
    assert offsets_in(key, version, step) == {**THREE, "payments": {7: (70, "generated")}}
    got = exchange.response(commit_response(key, version, {"payments": {7: 0}, **THREE_SUCCEEDED}))
    assert codes_in(key, version, got) == [("orders", 0, 0), ("orders", 1, 0), ("free", 3, 0)]
    assert interceptor.committed[0][place("payments", 7)].offset == 70
    assert intercepting.stats.commits == {"unchanged": 3, "added": 1}


@each_version
def test_an_added_partition_of_a_topic_of_the_client_is_sent_with_that_topic(key: int, version: int) -> None:
    intercepting, interceptor = intercept(more("orders", 9, 90))
    exchange = begin_commit(intercepting, key, version)
    out = exchange.request(commit_request(key, version, THREE))
    assert offsets_in(key, version, out) == {"orders": {**THREE["orders"], 9: (90, "generated")}, "free": THREE["free"]}
    got = exchange.response(commit_response(key, version, {"orders": {0: 0, 1: 0, 9: 3}, "free": {3: 0}}))
    assert codes_in(key, version, got) == [("orders", 0, 0), ("orders", 1, 0), ("free", 3, 0)]
    assert place("orders", 9) not in interceptor.committed[0]


@pytest.mark.parametrize("ids", [{}, None])
def test_an_offset_added_for_a_topic_without_a_known_id_is_not_sent(ids: Mapping[str, bytes] | None) -> None:
    intercepting, interceptor = intercept(more("who", 0, 5))
    exchange, frame = begin_commit(intercepting, PLAIN, 10), commit_request(PLAIN, 10, THREE)
    assert exchange.request(frame) == TopicIds(("who",))
    assert exchange.answer(ids) is frame
    assert intercepting.stats.commits["unknown_topic"] == 1
    response = commit_response(PLAIN, 10, THREE_SUCCEEDED)
    assert exchange.response(response) == response
    assert len(interceptor.committed[0]) == 3


def test_an_offset_added_for_a_topic_that_the_request_has_under_an_unknown_name_is_not_sent() -> None:
    intercepting, _ = intercept(more("orders", 0, 5), names=("free",))
    exchange, frame = begin_commit(intercepting, PLAIN, 10), commit_request(PLAIN, 10, THREE)
    assert exchange.request(frame) == TopicNames((topic_id("orders"),))
    assert exchange.answer() == TopicIds(("orders",))
    assert exchange.answer({"orders": topic_id("orders")}) is frame
    assert intercepting.stats.commits["unknown_topic"] == 1


def test_the_names_of_unknown_ids_are_asked_for_once() -> None:
    intercepting, interceptor = intercept(names=("free",))
    exchange, frame = begin_commit(intercepting, PLAIN, 10), commit_request(PLAIN, 10, THREE)
    assert exchange.request(frame) == TopicNames((topic_id("orders"),))
    intercepting.topics.remember([(topic_id("orders"), "orders")])
    assert exchange.answer() is frame
    assert {at.topic for at in interceptor.asked[0]} == {"orders", "free"}


def test_offsets_of_a_topic_whose_name_stays_unknown_are_sent_as_they_came() -> None:
    intercepting, interceptor = intercept(without(("free", 3)), names=("free",))
    exchange = begin_commit(intercepting, PLAIN, 10)
    assert exchange.request(commit_request(PLAIN, 10, THREE)) == TopicNames((topic_id("orders"),))
    assert exchange.answer() == commit_request(PLAIN, 10, {"orders": THREE["orders"]})
    response = exchange.response(commit_response(PLAIN, 10, {"orders": {0: 100, 1: 0}}))
    assert codes_in(PLAIN, 10, response) == [("orders", 0, 100), ("orders", 1, 0), ("free", 3, 0)]
    assert interceptor.committed == []


def test_a_transactional_commit_by_ids_is_intercepted_as_one_by_names() -> None:
    topics = tuple(
        TxnOffsetCommitRequestTopic(
            topic_id=topic_id(name),
            partitions=(
                TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=5, committed_metadata=None),
            ),
        )
        for name in ("orders", "free")
    )
    request = TxnOffsetCommitRequest(transactional_id="tx", group_id="g", member_id="m", topics=topics)
    header = commit_request(IN_TRANSACTION, 5, {})[4 : 4 + 8 + 2 + 3 + 1]
    header = header[:2] + (6).to_bytes(2, "big") + header[4:]
    intercepting, _ = intercept(without(("orders", 0)))
    exchange = begin_commit(intercepting, IN_TRANSACTION, 6)
    out = exchange.request(oracle.framed(header + encode(request, 6)))
    assert out == oracle.framed(header + encode(replace_fields(request, topics=topics[1:]), 6))
