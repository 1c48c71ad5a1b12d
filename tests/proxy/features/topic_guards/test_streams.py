"""Topologies of streams groups: the topics that a broker would create are held to guards."""

from __future__ import annotations

from typing import Any

import pytest
from support.features import started
from support.guarded_broker import INVALID_REQUEST, POLICY_VIOLATION, Exchanged, GuardedBroker, Topic, through

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.messages import alter_partition_reassignments as reassignments
from kafka_sidecar.codec.messages.streams_group_heartbeat import (
    CopartitionGroup,
    KeyValue,
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TopicInfo,
    Topology,
)
from kafka_sidecar.proxy.features.topic_guards.automatic import computed_partitions

LOADING, TIMED_OUT, NOT_ALLOWED = 14, 7, 29


def info(name: str, partitions: int = 0, factor: int = 0, **configs: str) -> TopicInfo:
    pairs = tuple(KeyValue(key=key.replace("_", "."), value=value) for key, value in configs.items())
    return TopicInfo(name=name, partitions=partitions, replication_factor=factor, topic_configs=pairs)


def part(
    number: int, *sources: str, reads: tuple[TopicInfo, ...] = (), writes: tuple[str, ...] = (),
    changelogs: tuple[TopicInfo, ...] = (), joined: tuple[CopartitionGroup, ...] = (),
) -> Subtopology:  # fmt: skip
    return Subtopology(
        subtopology_id=str(number), source_topics=sources, source_topic_regex=(), state_changelog_topics=changelogs,
        repartition_sink_topics=writes, repartition_source_topics=reads, copartition_groups=joined,
    )  # fmt: skip


def beat(
    guard: dict[str, Any], broker: GuardedBroker, *parts: Subtopology, version: int = 1, principal: str | None = None
) -> Exchanged:
    request = StreamsGroupHeartbeatRequest(
        group_id="app", member_id="me", topology=Topology(epoch=0, subtopologies=parts) if parts else None,
        active_tasks=(), standby_tasks=(), warmup_tasks=(), client_tags=(), user_endpoint=None,
    )  # fmt: skip
    features = started(topic_guards=[guard])
    return through(features, broker, ApiKey.STREAMS_GROUP_HEARTBEAT, version, request, principal)


COUNTING = part(0, "in", changelogs=(info("app-counts-changelog", cleanup_policy="compact"),))


@pytest.mark.parametrize("version", [0, 1])
def test_a_heartbeat_whose_topics_comply_goes_on_as_it_is(version: int) -> None:
    broker = GuardedBroker({"in": Topic(4, 1)})
    found = beat({"partitions": {"min": 3}, "replication_factor": {"max": 1}}, broker, COUNTING, version=version)
    assert (found.response.error_code, found.is_same) == (0, True)


@pytest.mark.parametrize("version", [0, 1])
def test_one_whose_topics_do_not_is_refused_with_the_message(version: int) -> None:
    broker = GuardedBroker({"in": Topic(2, 1)})
    found = beat({"partitions": {"min": 3}}, broker, COUNTING, version=version)
    assert (found.response.error_code, found.forwarded) == (POLICY_VIOLATION, None)
    says = "app-counts-changelog: partitions=2, allowed: 3 at least (topic_guards, entry 1) (kafka-sidecar explain "
    assert found.response.error_message.startswith(says)
    assert list(broker.topics) == ["in"]


def test_a_heartbeat_without_a_topology_is_not_looked_into_further() -> None:
    broker = GuardedBroker()
    assert beat({"create": "deny"}, broker).is_same
    assert len(broker.asked) == 1


@pytest.mark.parametrize(
    ("guard", "says"),
    [
        ({"create": "deny"}, "it may not be created"),
        ({"naming": "x.*"}, "its name does not match"),
        ({"replication_factor": {"min": 3}}, "replication.factor=1, allowed: 3 at least"),
        ({"configs": {"cleanup.policy": {"values": ["delete"]}}}, "cleanup.policy=compact, allowed: delete"),
        ({"configs": {"retention.ms": {"required": True}}}, "retention.ms is missing"),
        ({"other_configs": "deny"}, "cleanup.policy may not be set"),
    ],
)
def test_each_rule_of_a_guard_holds(guard: dict[str, Any], says: str) -> None:
    found = beat(guard, GuardedBroker({"in": Topic(4, 1)}), COUNTING)
    assert found.response.error_code == POLICY_VIOLATION
    assert says in found.response.error_message
    there = GuardedBroker({"in": Topic(4, 1), "app-counts-changelog": Topic(1, 1)})
    assert beat(guard, there, COUNTING).is_same
    assert beat({**guard, "mode": "shadow"}, GuardedBroker({"in": Topic(4, 1)}), COUNTING).is_same
    assert beat({**guard, "principals": ["User:bob"]}, GuardedBroker(), COUNTING, principal="User:alice").is_same


def test_what_a_broker_does_not_say_now_is_asked_again_and_what_it_would_not_create_is_its_own() -> None:
    guard = {"replication_factor": {"max": 1}}
    assert beat(guard, GuardedBroker(creation_error=TIMED_OUT), COUNTING).response.error_code == LOADING
    assert beat(guard, GuardedBroker(creation_error=NOT_ALLOWED), COUNTING).is_same


@pytest.mark.parametrize("second", [info("again", 4), info("again", 0, retention_ms="1"), info("again", -1)])
def test_a_topology_that_no_kafka_streams_sends_is_refused(second: TopicInfo) -> None:
    parts = [part(0, "in", reads=(info("again"),)), part(1, "in", reads=(second,))]
    assert beat({"partitions": {"max": 9}}, GuardedBroker(), *parts).response.error_code == INVALID_REQUEST
    assert beat({"topics": ["other"], "create": "deny"}, GuardedBroker(), *parts).is_same


def test_numbers_that_follow_from_a_topic_that_is_not_there_are_not_compared() -> None:
    assert beat({"partitions": {"min": 3}}, GuardedBroker(), COUNTING).is_same


def computed(*parts: Subtopology, **sources: int) -> dict[str, int]:
    found = computed_partitions(parts, sources)
    return {name: count for name, count in found.items() if name not in sources}


def test_a_chain_of_repartition_topics_has_the_largest_number_of_what_is_read() -> None:
    """In any order of subtopologies."""
    parts = [
        part(2, reads=(info("b"),), changelogs=(info("c-log"),)),
        part(1, "small", reads=(info("a"),), writes=("b",), changelogs=(info("b-log"),)),
        part(0, "large", "small", writes=("a",), changelogs=(info("a-log"),)),
    ]
    assert computed(*parts, large=8, small=2) == {"a": 8, "b": 8, "a-log": 8, "b-log": 8, "c-log": 8}
    assert computed(*parts, small=2) == {}


def test_topics_that_are_joined_have_the_number_of_those_that_are_there() -> None:
    group = CopartitionGroup(source_topics=(0,), source_topic_regex=(), repartition_source_topics=(0,))
    parts = [part(0, "wide", writes=("a",)), part(1, "narrow", reads=(info("a"),), joined=(group,))]
    assert computed(*parts, wide=8, narrow=3)["a"] == 3
    own = CopartitionGroup(source_topics=(), source_topic_regex=(), repartition_source_topics=(0, 1))
    parts = [part(0, "wide", writes=("a", "b")), part(1, reads=(info("a"), info("b", 5)), joined=(own,))]
    assert computed(*parts, wide=8)["a"] == 5


def test_a_circle_and_numbers_outside_of_arrays_are_the_brokers_affair() -> None:
    group = CopartitionGroup(source_topics=(7,), source_topic_regex=(), repartition_source_topics=(-1, 9))
    circle = part(0, reads=(info("a"),), writes=("a",), joined=(group,))
    assert computed(circle) == {}


REASSIGNMENTS = ApiKey.ALTER_PARTITION_REASSIGNMENTS


def reassigned(guard: dict[str, Any], broker: GuardedBroker, **replicas: tuple[int, ...] | None) -> Exchanged:
    topics = tuple(
        reassignments.ReassignableTopic(
            name=name, partitions=(reassignments.ReassignablePartition(partition_index=0, replicas=ids),)
        )
        for name, ids in replicas.items()
    )
    request = reassignments.AlterPartitionReassignmentsRequest(topics=topics)
    return through(started(topic_guards=[guard]), broker, REASSIGNMENTS, 1, request)


def test_a_reassignment_may_not_change_the_number_of_replicas_beyond_a_guard() -> None:
    broker = GuardedBroker({"a": Topic(1, 3), "b": Topic(1, 3), "c": Topic(1, 3)})
    found = reassigned({"replication_factor": {"min": 3}}, broker, a=(1, 2), b=(1, 2, 4), c=None)
    codes = {topic.name: topic.partitions[0].error_code for topic in found.response.responses}
    assert codes == {"a": POLICY_VIOLATION, "b": 0, "c": 0}
    assert broker.topics["a"].factor == 3
    refused = next(topic.partitions[0] for topic in found.response.responses if topic.name == "a")
    assert refused.error_message.startswith("a: replication.factor=2, allowed: 3 at least")
