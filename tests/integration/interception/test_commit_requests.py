"""OffsetCommit in every version: what the client is answered, what the broker has, and what `on_commit` hears."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from integration.interception.intercepted import Intercepted
from integration.interception.reads import Partition
from integration.scenarios.target import eventually
from integration.validation.wire import Wire

from kafka_sidecar.codec.apis import ApiKey

pytestmark = pytest.mark.integration

VERSIONS = range(2, 11)
FIRST_WITH_IDS = 10
UNKNOWN_TOPIC_OR_PARTITION, ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, GROUP_ID_NOT_FOUND = 3, 22, 25, 69
ALONE: Mapping[str, Any] = {"generation_id_or_member_epoch": -1, "member_id": ""}  # not a member, in a group of none
STRANGER: Mapping[str, Any] = {"generation_id_or_member_epoch": 5, "member_id": "stranger"}
# Of a transaction that no producer has begun.
LOST: Mapping[str, Any] = {**ALONE, "transactional_id": "lost", "producer_id": 12345, "producer_epoch": 0}
BEFORE_KIP_890, SINCE_KIP_890 = 4, 5  # TxnOffsetCommit
Codes = list[tuple[Partition, int]]


def commit(
    bootstrap: str,
    version: int,
    group: str,
    places: Mapping[str, Mapping[int, int]],
    who: Mapping[str, Any],
    key: ApiKey = ApiKey.OFFSET_COMMIT,
) -> Codes:
    """Commit offsets; the code for each partition, in the order of the answer."""
    with Wire(bootstrap) as wire:
        ids = wire.ids(places)
        topics = [
            {
                "name": topic, "topic_id": ids[topic],
                "partitions": [
                    {"partition_index": number, "committed_offset": offset, "committed_metadata": "m",
                     "committed_leader_epoch": -1} for number, offset in offsets.items()
                ],
            } for topic, offsets in places.items()
        ]  # fmt: skip
        said = wire.ask(key, version, group_id=group, topics=topics, **who)
    names = {topic_id: topic for topic, topic_id in ids.items()}
    return [
        (
            (names[topic.topic_id.bytes] if version >= FIRST_WITH_IDS else topic.name, one.partition_index),
            int(one.error_code),
        )
        for topic in said.topics
        for one in topic.partitions
    ]


@pytest.fixture(scope="module")
def topics(intercepted: Intercepted) -> tuple[str, str, str, str]:
    """With interceptors that filter, annotate and generate, and without one."""
    intercepted.topic("generate-requests-other")
    filtered, annotated, generating, others = (
        intercepted.topic(f"{what}-requests", 4) for what in ("filter", "annotate", "generate", "others")
    )
    # The broker coordinates no group before it is asked who does.
    with Wire(intercepted.cluster.direct) as wire:
        wire.ask(ApiKey.FIND_COORDINATOR, 4, key_type=0, coordinator_keys=["warm"])
    place = {others: {0: 1}}
    eventually(
        lambda: commit(intercepted.cluster.direct, 9, "warm", place, ALONE), lambda codes: codes[0][1] == 0, "a group"
    )
    return filtered, annotated, generating, others


@pytest.mark.parametrize("version", VERSIONS)
def test_the_client_is_answered_what_it_has_asked_for(
    intercepted: Intercepted, topics: tuple[str, str, str, str], version: int
) -> None:
    filtered, annotated, generating, others = topics
    group = f"requests-{version}"
    places = {others: {3: 7}, filtered: {1: 8, 0: 9, 3: 10}, generating: {2: 11}, annotated: {0: 12, 99: 13}}
    committed = {
        (others, 3): (7, "m"),
        (filtered, 0): (9, "m"),
        (generating, 2): (11, "m"),
        (generating, 3): (1, "made"),
        ("generate-requests-other", 0): (2, "made too"),
        (annotated, 0): (12, "m+ключ"),
    }

    codes = commit(intercepted.sidecar.bootstrap, version, group, places, ALONE)

    asked = [(topic, number) for topic, offsets in places.items() for number in offsets]
    assert dict(codes) == {one: UNKNOWN_TOPIC_OR_PARTITION if one == (annotated, 99) else 0 for one in asked}
    assert len(codes) == len(asked)
    assert intercepted.committed(group) == committed
    notified = {
        (topic, number): (offset, metadata)
        for event in intercepted.events("on_commit", group=group, version=version)
        for topic, number, offset, metadata in event["offsets"]
    }
    assert notified == {place: offset for place, offset in committed.items() if place[0] != others}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_failed_commit_is_reported_to_the_client_and_to_no_interceptor(
    intercepted: Intercepted, topics: tuple[str, str, str, str], version: int
) -> None:
    filtered, annotated, generating, _ = topics
    group = f"failing-{version}"
    places = {annotated: {0: 1, 1: 2}, generating: {0: 3}, filtered: {0: 1}}

    codes = commit(intercepted.sidecar.bootstrap, version, group, places, STRANGER)

    direct = commit(intercepted.cluster.direct, version, group, places, STRANGER)
    assert dict(codes) == dict(direct)
    assert {*dict(codes).values()} <= {ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, GROUP_ID_NOT_FOUND}
    assert intercepted.events("on_commit", group=group) == []
    assert intercepted.committed(group) == {}


def test_an_emptied_commit_in_a_transaction_gets_the_errors_of_the_transaction(
    intercepted: Intercepted,
) -> None:
    places = {intercepted.topic("empty-requests", 3): {0: 1, 2: 2}}
    key, group = ApiKey.TXN_OFFSET_COMMIT, "emptied-requests"

    before, since = (
        commit(intercepted.sidecar.bootstrap, version, group, places, LOST, key)
        for version in (BEFORE_KIP_890, SINCE_KIP_890)
    )

    direct = commit(intercepted.cluster.direct, SINCE_KIP_890, group, places, LOST, key)
    assert since == direct
    assert 0 not in dict(direct).values()
    assert before == [(place, 0) for place, _ in direct]
    assert intercepted.committed(group) == {}
