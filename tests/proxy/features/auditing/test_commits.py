"""Committed offsets, counted once the broker has accepted them."""

from __future__ import annotations

import pytest
from support.auditing import Audited
from support.commit_requests import PLAIN, THREE, THREE_SUCCEEDED, VERSIONS, commit_request, commit_response
from support.dialogue import pieces
from support.produce_requests import topic_id

each_version = pytest.mark.parametrize(("key", "version"), VERSIONS)


def audited(**settings: object) -> Audited:
    found = Audited(**settings)  # type: ignore[arg-type]
    found.dialogue.topics.remember((topic_id(name), name) for name in ("orders", "free"))
    return found


@each_version
def test_offsets_that_the_broker_accepts_are_counted(key: int, version: int) -> None:
    found = audited()
    request, answer = commit_request(key, version, THREE), commit_response(key, version, THREE_SUCCEEDED)
    found.dialogue.client(*pieces(request, [20, 50])).broker(*pieces(answer, [10]))
    assert found.calls.committed_ == [("g", "orders", 0, 10), ("g", "orders", 1, 20), ("g", "free", 3, 30)]
    assert (found.dialogue.to_broker, found.dialogue.to_client) == (request, answer)


def test_offsets_that_the_broker_rejects_are_not_counted() -> None:
    found = audited(excluded=("free",))
    found.dialogue.client(commit_request(PLAIN, 9, THREE))
    found.dialogue.broker(commit_response(PLAIN, 9, {"orders": {0: 22, 1: 0, 5: 0}, "free": {3: 0}}))
    assert found.calls.committed_ == [("g", "orders", 1, 20)]


def test_offsets_of_a_topic_without_a_name_are_counted_later() -> None:
    found = Audited()
    found.dialogue.client(commit_request(PLAIN, 10, {"orders": {0: (10, None)}}))
    found.dialogue.broker(commit_response(PLAIN, 10, {"orders": {0: 0}}))
    assert found.calls.committed_ == []
    found.dialogue.topics.remember([(topic_id("orders"), "orders")])
    found.requested[0][1]()
    assert found.calls.committed_ == [("g", "orders", 0, 10)]


def test_a_lost_connection_commits_nothing() -> None:
    found = audited()
    found.dialogue.client(commit_request(PLAIN, 9, THREE)).session.lost("the broker closed its connection")
    assert found.calls.committed_ == []


def test_what_cannot_be_read_is_relayed_and_counted_itself() -> None:
    found = audited()
    request = commit_request(PLAIN, 9, THREE)
    broken = (len(request) - 8).to_bytes(4, "big") + request[4:-4]
    found.dialogue.client(broken).broker(commit_response(PLAIN, 9, THREE_SUCCEEDED))
    assert found.dialogue.to_broker == broken
    assert found.counting.stats.uncounted == {("OffsetCommit", "unreadable"): 1}
    answer = commit_response(PLAIN, 9, THREE_SUCCEEDED)
    cut = (len(answer) - 8).to_bytes(4, "big") + answer[4:-4]
    found.dialogue.client(request).broker(cut)
    assert found.dialogue.to_client.endswith(cut)
    assert found.counting.stats.uncounted == {("OffsetCommit", "unreadable"): 2}


def test_an_auditor_that_fails_costs_no_connection() -> None:
    found = audited()
    found.calls.fails = True
    found.dialogue.client(commit_request(PLAIN, 9, THREE)).broker(commit_response(PLAIN, 9, THREE_SUCCEEDED))
    assert found.dialogue.cause is None
    assert found.counting.stats.uncounted == {("OffsetCommit", "auditor_failed"): 3}
