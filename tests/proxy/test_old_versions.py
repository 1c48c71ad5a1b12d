"""Versions that brokers before Kafka 4.0 take: what is not concerned passes byte for byte, the rest has its rule."""

from __future__ import annotations

from struct import pack
from typing import Any
from zlib import crc32

import pytest
from support.dialogue import Dialogue, pieces
from support.features import started
from support.interception import Opened
from support.old_requests import (
    commit_request,
    commit_response,
    produce_request,
    produce_response,
    produce_results,
)
from support.produce_requests import BAD, GOOD

UNSUPPORTED_FOR_MESSAGE_FORMAT, INVALID_RECORD = 43, 87
_MESSAGE = b"\1\0" + bytes(8) + pack(">i", -1) + pack(">i", 3) + b"old"
OLD = pack(">qi", 0, 4 + len(_MESSAGE)) + pack(">I", crc32(_MESSAGE)) + _MESSAGE  # magic 1
POLICIES: dict[str, Any] = {
    "policies": {"stub": {"type": "support.policies:Stub"}},
    "topics": [{"name": "orders", "policy": "stub"}],
}
each_produce = pytest.mark.parametrize("version", range(3))
each_cut = pytest.mark.parametrize("cuts", [[], [9], [30], [60, 75, 120]])


def validating() -> Dialogue:
    return Dialogue(exchange=started({"type": "support.interception:Adds", "topics": ["free"]}, **POLICIES).exchange)


@each_produce
@each_cut
def test_a_produce_to_topics_without_policy_and_interceptor_passes_untouched(version: int, cuts: list[int]) -> None:
    talk = validating()
    frame = produce_request(version, {"other": {0: OLD * 2}, "payments": {1: OLD, 2: None}})
    alone = produce_request(version, {"other": {0: OLD * 2}})
    for number in (1, 2):
        talk.client(*pieces(frame + alone, cuts))
        assert (talk.cause, talk.to_broker) == (None, (frame + alone) * number)
    answer = produce_response(version, {"other": {0: (0, 5)}})
    assert talk.broker(answer).to_client == answer


@each_produce
@each_cut
@pytest.mark.parametrize("records", [OLD, OLD * 3, b"\0" + OLD[1:16] + b"\0" + OLD[17:]], ids=["1", "many", "0"])
def test_records_in_older_formats_are_rejected_where_a_policy_decides(
    version: int, cuts: list[int], records: bytes
) -> None:
    talk = validating()
    talk.client(*pieces(produce_request(version, {"orders": {0: records}, "other": {0: OLD}}), cuts))
    assert (talk.cause, talk.to_broker) == (None, produce_request(version, {"other": {0: OLD}}))
    talk.broker(produce_response(version, {"other": {0: (0, 5)}}))
    assert produce_results(version, talk.to_client) == [
        ("orders", 0, UNSUPPORTED_FOR_MESSAGE_FORMAT, -1), ("other", 0, 0, 5)
    ]  # fmt: skip


@each_produce
def test_a_produce_of_nothing_but_such_records_is_answered_by_the_sidecar(version: int) -> None:
    talk = validating().client(produce_request(version, {"orders": {0: OLD}}))
    assert talk.to_broker == b""
    assert produce_results(version, talk.to_client) == [("orders", 0, UNSUPPORTED_FOR_MESSAGE_FORMAT, -1)]


@each_produce
def test_batches_of_format_2_are_validated_whatever_the_version(version: int) -> None:
    talk = validating().client(produce_request(version, {"orders": {0: BAD, 1: GOOD}}))
    assert talk.to_broker == produce_request(version, {"orders": {1: GOOD}})
    talk.broker(produce_response(version, {"orders": {1: (0, 5)}}))
    assert produce_results(version, talk.to_client) == [("orders", 0, INVALID_RECORD, -1), ("orders", 1, 0, 5)]


@each_produce
def test_records_in_older_formats_pass_interceptors_and_are_counted(version: int) -> None:
    made = started({"type": "support.interception:Adds", "topics": ["free"]})
    frame = produce_request(version, {"free": {0: OLD}, "other": {0: OLD}})
    talk = Dialogue(exchange=made.exchange).client(frame)
    assert (talk.cause, talk.to_broker) == (None, frame)
    assert made.interception is not None
    assert made.interception.stats.batches == {("Produce", "old_format"): 1}


@pytest.mark.parametrize("version", range(2))
def test_hooks_run_for_commits_of_old_versions(version: int) -> None:
    talk = Dialogue(exchange=started({"type": "support.interception:Commits"}).exchange)
    commits = Opened.opened[-1]
    commits.change = lambda offsets: {place: one for place, one in offsets.items() if place.topic != "orders"}
    talk.client(commit_request(version, "g", {("orders", 0): (7, "mine"), ("free", 3): (8, "")}))
    assert talk.to_broker == commit_request(version, "g", {("free", 3): (8, "")})
    talk.broker(commit_response({("free", 3): 0}))
    assert talk.to_client == commit_response({("orders", 0): 0, ("free", 3): 0})
    (committed,) = commits.committed
    assert {(place.topic, one.offset) for place, one in committed.items()} == {("free", 8)}
    assert committed.context.api_version == version
