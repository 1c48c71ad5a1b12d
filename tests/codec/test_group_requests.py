"""What group requests say of the group and its offsets: against kio, and for all versions against the declarations."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from fuzz.mutations import mutated
from fuzz.samples import sample, versions
from support import oracle
from support.commit_requests import PLAIN, THREE, THREE_SUCCEEDED, commit_request, commit_response
from support.commit_requests import VERSIONS as KIOS_VERSIONS
from support.produce_requests import topic_id

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.envelope import encode_request, encode_response
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.group_requests import COMMITS, CommitRequests, GroupRequests

ALL_VERSIONS = [(key, version) for key, commit in COMMITS.items() for version in versions(commit.request)]
FIRST_WITH_IDS: dict[int, int] = {PLAIN: 10, ApiKey.TXN_OFFSET_COMMIT: 6}
each_version = pytest.mark.parametrize(("key", "version"), ALL_VERSIONS)


def inside(frame: bytes) -> tuple[bytes, int, int]:
    """The frame with other bytes around it, and where it is."""
    return b"before" + frame + b"after", 6, 6 + len(frame)


def key_of(topic: Any, key: int, version: int) -> Any:
    return topic.topic_id if version >= FIRST_WITH_IDS[key] else topic.name


@pytest.mark.parametrize(("key", "version"), KIOS_VERSIONS)
def test_commits_are_read_as_kio_writes_them(key: int, version: int) -> None:
    requests = CommitRequests(key, version)
    names = {name: topic_id(name) if version >= FIRST_WITH_IDS[key] else name for name in THREE}
    group, offsets = requests.read(*inside(commit_request(key, version, THREE)))
    assert group == "g"
    assert offsets == {(names["orders"], 0): 10, (names["orders"], 1): 20, (names["free"], 3): 30}
    assert set(requests.accepted(*inside(commit_response(key, version, THREE_SUCCEEDED)))) == set(offsets)
    rejected = commit_response(key, version, {"orders": {0: 22, 1: 0, 5: -1}})
    assert requests.accepted(*inside(rejected)) == [(names["orders"], 1)]


@each_version
def test_commits_of_all_versions_are_read_as_declared(key: int, version: int) -> None:
    random, requests = Random(f"{key} {version}"), CommitRequests(key, version)
    for _ in range(50):
        request: Any = sample(random, COMMITS[key].request, version)
        response: Any = sample(random, COMMITS[key].response, version)
        found = requests.read(*inside(encode_request(request, version, 7, client_id="app")))
        offsets = {
            (key_of(topic, key, version), one.partition_index): one.committed_offset
            for topic in request.topics
            for one in topic.partitions
        }
        assert found == (request.group_id, offsets)
        assert requests.accepted(*inside(encode_response(response, version, 7))) == [
            (key_of(topic, key, version), one.partition_index)
            for topic in response.topics
            for one in topic.partitions
            if not one.error_code
        ]


@each_version
def test_hostile_commits_raise_codec_error_or_are_read(key: int, version: int) -> None:
    random, requests = Random(f"{key} {version}"), CommitRequests(key, version)
    request = encode_request(sample(random, COMMITS[key].request, version), version, 7, client_id="app")
    response = encode_response(sample(random, COMMITS[key].response, version), version, 7)
    for frame, read in ((request, requests.read), (response, requests.accepted)):
        for end in range(len(frame)):
            with pytest.raises(CodecError):
                read(frame, 0, end)
        for _ in range(200):
            bad = mutated(random, frame, frame[::-1])
            try:
                read(bad, 0, len(bad))
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
    assert GroupRequests(key, version).group(*inside(frame)) == "Bücher"


def test_an_offset_fetch_of_several_groups_names_the_first() -> None:
    for groups, expected in (([{"group_id": "billing"}, {"group_id": "other"}], "billing"), ([], "")):
        frame = oracle.request_frame(oracle.request(ApiKey.OFFSET_FETCH, 8, groups=groups), 7)
        assert GroupRequests(ApiKey.OFFSET_FETCH, 8).group(*inside(frame)) == expected


@pytest.mark.parametrize(("key", "version"), [(ApiKey.HEARTBEAT, 0), (ApiKey.HEARTBEAT, 4), (ApiKey.OFFSET_FETCH, 8)])
def test_a_request_that_ends_before_its_group_is_an_error(key: int, version: int) -> None:
    frame = oracle.framed(int(key).to_bytes(2, "big") + version.to_bytes(2, "big") + bytes(4) + b"\xff\xff")
    with pytest.raises(CodecError):
        GroupRequests(key, version).group(frame, 0, len(frame))
