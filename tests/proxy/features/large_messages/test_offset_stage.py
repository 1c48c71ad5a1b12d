"""Commits of topics with large messages: what the coordinator stores, and what the client and interceptors see of it.

kio is the reference.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from support.client import FakeClient
from support.commit_requests import (
    PLAIN,
    VERSIONS,
    OffsetsByTopic,
    codes_in,
    commit_request,
    commit_response,
    epochs_in,
    intercept,
    offsets_in,
    place,
)
from support.driven import Driven, driven
from support.produce_requests import topic_id

from kafka_sidecar.codec.wire import NO_ID
from kafka_sidecar.large_messages.intervals import Intervals
from kafka_sidecar.large_messages.settings import TopicSettings
from kafka_sidecar.plugins.values import OffsetAndMetadata
from kafka_sidecar.proxy.exchanges.commits import Commits, Stage
from kafka_sidecar.proxy.features.interception.consume_stage import CommitStage
from kafka_sidecar.proxy.features.large_messages.offset_stage import OffsetStage, is_li_client

each_version = pytest.mark.parametrize(("key", "version"), VERSIONS)
# A large message of partition 0 is at 3 to 6; the one of partition 1 begins at 8 and is not complete.
COMMITS: OffsetsByTopic = {"orders": {0: (5, "mine"), 1: (9, None), 2: (40, "")}, "free": {0: (5, "12,ours")}}
STORED: OffsetsByTopic = {"orders": {0: (3, "5,mine"), 1: (8, "9,"), 2: (40, "")}, "free": {0: (5, "12,ours")}}
SUCCEEDED = {"orders": {0: 0, 1: 0, 2: 0}, "free": {0: 0}}


class Committing:
    """The exchanges of one sidecar, whose topic "orders" has large messages."""

    def __init__(
        self, *before: Stage, knows_ids: bool = True, li_clients: tuple[str, ...] = (), **of_topic: Any
    ) -> None:
        self.intervals, self.stored, self.client = Intervals(), Counter[str](), FakeClient()
        self.intervals.complete(topic_id("orders"), 0, b"a", 3, 6)
        self.intervals.see_slice(topic_id("orders"), 1, b"b", 8)
        self.intervals.see(topic_id("orders"), 1, 8, 9)
        settings = TopicSettings(**of_topic)
        self.stage = OffsetStage(
            lambda topic: settings if topic == "orders" else None,
            self.intervals,
            topic_id if knows_ids else lambda name: NO_ID,
            self.stored,
            li_clients,
            max_metadata=20,
        )
        self._before = before

    def begin(self, key: int, version: int) -> Driven:
        intercepting, _ = intercept()
        services = intercepting.services
        commits = Commits(key, [*self._before, self.stage], services.name_of, services.clock)
        found = driven(commits, version=version, client=self.client)
        assert found is not None
        return found


@each_version
def test_an_offset_inside_of_a_large_message_is_stored_as_li_does_and_all_others_as_they_are(
    key: int, version: int
) -> None:
    committing = Committing()
    exchange, frame = committing.begin(key, version), commit_request(key, version, COMMITS)
    to_broker = exchange.request(frame)
    assert offsets_in(key, version, to_broker) == STORED
    if version >= 6:
        assert epochs_in(key, version, to_broker) == epochs_in(key, version, frame)
    assert not exchange.wants_response
    assert committing.stored == {"wrapped": 2, "plain": 1}


@each_version
def test_a_commit_that_no_large_message_reaches_over_is_the_clients_frame(key: int, version: int) -> None:
    committing = Committing()
    frame = commit_request(key, version, {"orders": {0: (3, "mine"), 1: (8, None)}, "free": {0: (5, "12,ours")}})
    assert committing.begin(key, version).request(frame) is frame
    assert committing.stored == {"plain": 2}


def test_metadata_that_looks_like_that_of_li_is_wrapped() -> None:
    to_broker = Committing().begin(PLAIN, 8).request(commit_request(PLAIN, 8, {"orders": {0: (7, "12,foo")}}))
    assert offsets_in(PLAIN, 8, to_broker) == {"orders": {0: (7, "7,12,foo")}}


def test_metadata_that_would_be_too_long_is_committed_at_the_clients_own_offset() -> None:
    committing, frame = Committing(), commit_request(PLAIN, 8, {"orders": {0: (5, "x" * 19)}})
    assert committing.begin(PLAIN, 8).request(frame) is frame
    assert committing.stored == {"too_long": 1}


def test_interceptors_see_what_the_client_commits_before_and_after() -> None:
    intercepting, interceptor = intercept()
    committing = Committing(CommitStage(intercepting.catalog.committers, intercepting.stats.commits))
    exchange = committing.begin(PLAIN, 8)
    assert offsets_in(PLAIN, 8, exchange.request(commit_request(PLAIN, 8, COMMITS))) == STORED
    answer = commit_response(PLAIN, 8, SUCCEEDED)
    assert exchange.response(answer) is answer
    assert interceptor.asked == interceptor.committed
    assert interceptor.committed[0][place("orders", 0)] == OffsetAndMetadata(5, "mine", 4)
    assert intercepting.stats.commits == {"unchanged": 4}


def test_an_offset_that_an_interceptor_has_changed_is_stored_by_its_own_safe_offset() -> None:
    intercepting, interceptor = intercept(
        lambda offsets: {
            **offsets,
            place("orders", 0): OffsetAndMetadata(4, "more"),
            place("orders", 9): OffsetAndMetadata(1),
        }
    )
    committing = Committing(CommitStage(intercepting.catalog.committers, intercepting.stats.commits))
    exchange = committing.begin(PLAIN, 8)
    to_broker = exchange.request(commit_request(PLAIN, 8, COMMITS))
    assert offsets_in(PLAIN, 8, to_broker)["orders"] == {0: (3, "4,more"), 1: (8, "9,"), 2: (40, ""), 9: (1, "")}
    to_client = exchange.response(commit_response(PLAIN, 8, {"orders": {0: 0, 1: 0, 2: 0, 9: 0}, "free": {0: 0}}))
    assert [one[:2] for one in codes_in(PLAIN, 8, to_client)] == [
        ("orders", 0),
        ("orders", 1),
        ("orders", 2),
        ("free", 0),
    ]
    assert interceptor.committed[0][place("orders", 0)].offset == 4
    assert intercepting.stats.commits == {"unchanged": 3, "changed": 1, "added": 1}


def test_in_the_mode_plain_nothing_is_changed() -> None:
    committing, frame = Committing(offsets="plain"), commit_request(PLAIN, 8, COMMITS)
    assert committing.begin(PLAIN, 8).request(frame) is frame
    assert not committing.stored


def test_in_the_mode_strict_li_every_offset_is_stored_as_li_does() -> None:
    to_broker = Committing(offsets="strict-li").begin(PLAIN, 8).request(commit_request(PLAIN, 8, COMMITS))
    assert offsets_in(PLAIN, 8, to_broker) == {
        "orders": {0: (3, "5,mine"), 1: (8, "9,"), 2: (40, "40,")}, "free": {0: (5, "12,ours")},
    }  # fmt: skip


def test_a_client_of_li_stores_offsets_itself() -> None:
    committing, frame = Committing(li_clients=("etl-*", "app*")), commit_request(PLAIN, 8, COMMITS)
    assert committing.begin(PLAIN, 8).request(frame) is frame


def test_while_the_topics_id_is_not_known_offsets_are_stored_as_they_are() -> None:
    committing, frame = Committing(knows_ids=False), commit_request(PLAIN, 8, COMMITS)
    assert committing.begin(PLAIN, 8).request(frame) is frame
    committing.intervals.complete("orders", 0, b"c", 2, 6)  # in a cluster without ids
    assert offsets_in(PLAIN, 8, committing.begin(PLAIN, 8).request(frame))["orders"][0] == (2, "5,mine")


def test_a_negative_offset_is_left_to_the_broker() -> None:
    frame = commit_request(PLAIN, 8, {"orders": {0: (-1, "4,x")}})
    assert Committing().begin(PLAIN, 8).request(frame) is frame


def test_a_client_of_li_is_named_by_patterns_whose_brackets_mean_themselves() -> None:
    assert is_li_client("app [prod]", ["app [prod]"])
    assert is_li_client("app-1", ["li-*", "app-?"])
    assert not is_li_client("app p", ["app [prod]"])
    assert not is_li_client(None, ["app*"])
