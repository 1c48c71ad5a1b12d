"""Requests of groups: which group a client is in, and what is committed; against kio, and against the declarations."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from fuzz.mutations import mutated
from fuzz.samples import sample, versions
from support import oracle
from support.auditing import Audited
from support.commit_requests import PLAIN, THREE, THREE_SUCCEEDED, VERSIONS, commit_request, commit_response
from support.commit_requests import VERSIONS as KIOS_VERSIONS
from support.dialogue import pieces
from support.produce_requests import topic_id

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.envelope import encode_request, encode_response
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.proxy.features.auditing.groups import COMMITS, CommitTap, group_of

ALL_VERSIONS = [(key, version) for key, commit in COMMITS.items() for version in versions(commit[0])]
FIRST_WITH_IDS: dict[int, int] = {PLAIN: 10, ApiKey.TXN_OFFSET_COMMIT: 6}
each_version = pytest.mark.parametrize(("key", "version"), ALL_VERSIONS)


def tap(key: int, version: int) -> CommitTap:
    return CommitTap(Audited().counting, key, version)


def key_of(topic: Any, key: int, version: int) -> Any:
    return topic.topic_id if version >= FIRST_WITH_IDS[key] else topic.name


@pytest.mark.parametrize(("key", "version"), KIOS_VERSIONS)
def test_commits_are_read_as_kio_writes_them(key: int, version: int) -> None:
    commits = tap(key, version)
    names = {name: topic_id(name) if version >= FIRST_WITH_IDS[key] else name for name in THREE}
    group, offsets = commits.read(commit_request(key, version, THREE))
    assert group == "g"
    assert offsets == {(names["orders"], 0): 10, (names["orders"], 1): 20, (names["free"], 3): 30}
    assert set(commits.accepted(commit_response(key, version, THREE_SUCCEEDED))) == set(offsets)
    rejected = commit_response(key, version, {"orders": {0: 22, 1: 0, 5: -1}})
    assert commits.accepted(rejected) == [(names["orders"], 1)]


@each_version
def test_commits_of_all_versions_are_read_as_declared(key: int, version: int) -> None:
    random, commits = Random(f"{key} {version}"), tap(key, version)
    for _ in range(50):
        request: Any = sample(random, COMMITS[key][0], version)
        response: Any = sample(random, COMMITS[key][1], version)
        found = commits.read(encode_request(request, version, 7, client_id="app"))
        offsets = {
            (key_of(topic, key, version), one.partition_index): one.committed_offset
            for topic in request.topics
            for one in topic.partitions
        }
        assert found == (request.group_id, offsets)
        assert commits.accepted(encode_response(response, version, 7)) == [
            (key_of(topic, key, version), one.partition_index)
            for topic in response.topics
            for one in topic.partitions
            if not one.error_code
        ]


@each_version
def test_hostile_commits_raise_codec_error_or_are_read(key: int, version: int) -> None:
    random, commits = Random(f"{key} {version}"), tap(key, version)
    request = encode_request(sample(random, COMMITS[key][0], version), version, 7, client_id="app")
    response = encode_response(sample(random, COMMITS[key][1], version), version, 7)
    for frame, read in ((request, commits.read), (response, commits.accepted)):
        for end in range(len(frame)):
            with pytest.raises(CodecError):
                read(frame[:end])
        for _ in range(200):
            bad = mutated(random, frame, frame[::-1])
            try:
                read(bad)
            except CodecError:
                continue


OTHERS = [
    *((ApiKey.JOIN_GROUP, version) for version in range(2, 10)),
    *((ApiKey.SYNC_GROUP, version) for version in range(6)),
    *((ApiKey.HEARTBEAT, version) for version in range(5)),
    *((ApiKey.OFFSET_FETCH, version) for version in range(1, 8)),
    (ApiKey.CONSUMER_GROUP_HEARTBEAT, 0),
]


@pytest.mark.parametrize(("key", "version"), OTHERS)
def test_requests_of_members_name_the_group(key: int, version: int) -> None:
    frame = oracle.request_frame(oracle.request(key, version, group_id="Bücher"), 7)
    assert group_of(key, version)(frame) == "Bücher"


def test_an_offset_fetch_of_several_groups_names_the_first() -> None:
    for groups, expected in (([{"group_id": "billing"}, {"group_id": "other"}], "billing"), ([], "")):
        frame = oracle.request_frame(oracle.request(ApiKey.OFFSET_FETCH, 8, groups=groups), 7)
        assert group_of(ApiKey.OFFSET_FETCH, 8)(frame) == expected


@pytest.mark.parametrize(("key", "version"), [(ApiKey.HEARTBEAT, 0), (ApiKey.HEARTBEAT, 4), (ApiKey.OFFSET_FETCH, 8)])
def test_a_request_that_ends_before_its_group_is_an_error(key: int, version: int) -> None:
    frame = oracle.framed(int(key).to_bytes(2, "big") + version.to_bytes(2, "big") + bytes(4) + b"\xff\xff")
    with pytest.raises(CodecError):
        group_of(key, version)(frame)


each_of_kios = pytest.mark.parametrize(("key", "version"), VERSIONS)


def audited(**settings: object) -> Audited:
    found = Audited(**settings)  # type: ignore[arg-type]
    found.dialogue.topics.remember((topic_id(name), name) for name in ("orders", "free"))
    return found


@each_of_kios
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
