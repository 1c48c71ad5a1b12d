"""Requests that create, alter and delete topics: what violates a guard is refused, the rest is the broker's."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.features import FEWER, started
from support.guarded_broker import (
    EXISTS,
    INVALID_CONFIG,
    INVALID_REQUEST,
    POLICY_VIOLATION,
    UNKNOWN,
    Exchanged,
    GuardedBroker,
    Topic,
    through,
)
from support.produce_requests import topic_id

from kafka_sidecar.codec.apis import APIS, ApiKey
from kafka_sidecar.codec.messages import alter_configs, create_partitions, create_topics, delete_topics
from kafka_sidecar.codec.messages import incremental_alter_configs as incremental
from kafka_sidecar.proxy.features.compose import Features

RETENTION = {"min": 3600000, "max": 604800000, "required": True}
GUARD: dict[str, Any] = {
    "naming": "[a-z]+",
    "partitions": {"min": 3, "max": 6},
    "replication_factor": {"min": 1, "max": 1},
    "configs": {"retention.ms": RETENTION, "cleanup.policy": {"values": ["delete", "compact"]}},
    "other_configs": "deny",
    "delete": "deny",
}
GOOD = {"retention.ms": "3600000"}
SET, DELETE, APPEND, SUBTRACT = range(4)
CREATE_VERSIONS = range(8)
DELETIONS = [*range(APIS[ApiKey.DELETE_TOPICS].max_version + 1)]
HINT = re.compile(r" \(kafka-sidecar explain [0-9a-f]{6}-[0-9a-f]{10}\)$")


def guarded(*entries: dict[str, Any], **settings: Any) -> Features:
    return started(topic_guards=list(entries or [GUARD]), **settings)


def topic(
    name: str, partitions: int = 3, factor: int = 1, configs: dict[str, str] | None = None,
    assignments: Sequence[Sequence[int]] = (),
) -> Any:  # fmt: skip
    values = GOOD if configs is None else configs
    return create_topics.CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=factor,
        assignments=tuple(
            create_topics.CreatableReplicaAssignment(partition_index=at, broker_ids=tuple(one))
            for at, one in enumerate(assignments)
        ),
        configs=tuple(create_topics.CreatableTopicConfig(name=key, value=value) for key, value in values.items()),
    )


def create(
    features: Features, broker: GuardedBroker, *topics: Any, version: int = 7, only: bool = False,
    principal: str | None = None,
) -> Exchanged:  # fmt: skip
    request = create_topics.CreateTopicsRequest(topics=topics, timeout_ms=1000, validate_only=only)
    return through(features, broker, ApiKey.CREATE_TOPICS, version, request, principal)


def codes(of: Exchanged, results: str = "topics", name: str = "name") -> list[tuple[str, int]]:
    return [(getattr(one, name), one.error_code) for one in getattr(of.response, results)]


@pytest.mark.parametrize("version", CREATE_VERSIONS)
def test_a_topic_that_violates_a_guard_is_refused_and_the_others_are_created(version: int) -> None:
    broker = GuardedBroker()
    found = create(guarded(), broker, topic("a"), topic("b", 1), topic("c"), topic("D"), version=version)
    assert codes(found) == [("a", 0), ("b", POLICY_VIOLATION), ("c", 0), ("D", POLICY_VIOLATION)]
    assert list(broker.topics) == ["a", "c"]
    if version >= 1:
        message = found.response.topics[1].error_message
        assert HINT.sub("", message) == "b: partitions=1, allowed: 3 to 6 (topic_guards, entry 1)"
        assert HINT.search(message)


@pytest.mark.parametrize("version", CREATE_VERSIONS)
def test_a_request_that_complies_is_forwarded_as_it_is(version: int) -> None:
    broker = GuardedBroker()
    found = create(guarded(), broker, topic("a"), topic("b"), version=version)
    assert found.is_same
    assert len(broker.asked) == 1


@pytest.mark.parametrize("only", [False, True])
def test_a_request_of_which_nothing_is_left_is_answered_here(only: bool) -> None:
    broker = GuardedBroker()
    found = create(guarded(), broker, topic("A"), topic("b", 7), only=only)
    assert found.forwarded is None
    assert codes(found) == [("A", POLICY_VIOLATION), ("b", POLICY_VIOLATION)]
    assert all(message.validate_only for _, _, message in broker.asked)
    assert broker.topics == {}


@pytest.mark.parametrize("only", [False, True])
def test_to_validate_only_has_the_same_answers(only: bool) -> None:
    found = create(guarded(), GuardedBroker(), topic("a"), topic("b", 1), only=only)
    assert codes(found) == [("a", 0), ("b", POLICY_VIOLATION)]


def test_the_error_of_the_broker_comes_first() -> None:
    broker = GuardedBroker({"old": Topic(1, 1)})
    found = create(guarded(), broker, topic("old", 1, configs={}), topic("a"))
    assert codes(found) == [("old", EXISTS), ("a", 0)]
    assert found.response.topics[0].error_message == "of the broker"


@pytest.mark.parametrize("version", CREATE_VERSIONS)
@pytest.mark.parametrize(("default", "code"), [(2, POLICY_VIOLATION), (3, 0), (6, 0), (7, POLICY_VIOLATION)])
def test_numbers_that_the_broker_chooses_are_asked_for(version: int, default: int, code: int) -> None:
    broker = GuardedBroker(partitions=default)
    assert codes(create(guarded(), broker, topic("a", -1, -1), version=version)) == [("a", code)]
    assert ("a" in broker.topics) == (code == 0)


def test_nothing_is_asked_where_no_guard_limits_the_number() -> None:
    broker = GuardedBroker()
    found = create(guarded({"naming": "[a-z]+"}), broker, topic("a", -1, -1, {}))
    assert (codes(found), len(broker.asked)) == ([("a", 0)], 1)


def test_where_the_broker_does_not_say_its_defaults_numbers_have_to_be_named() -> None:
    broker = GuardedBroker(partitions=3, tells_defaults=False)
    found = create(guarded(), broker, topic("a", -1), topic("b"))
    assert codes(found) == [("a", POLICY_VIOLATION), ("b", 0)]
    assert "name the numbers" in found.response.topics[0].error_message


@pytest.mark.parametrize(
    ("assignments", "code"),
    [([[1]] * 3, 0), ([[1]] * 2, POLICY_VIOLATION), ([[1], [1], [1, 2]], POLICY_VIOLATION)],
)
def test_partitions_and_replicas_of_a_manual_assignment_count(assignments: list[list[int]], code: int) -> None:
    found = create(guarded(), GuardedBroker(), topic("a", -1, -1, assignments=assignments))
    assert codes(found) == [("a", code)]


def test_a_topic_that_is_named_twice_is_not_created_by_the_half_that_complies() -> None:
    broker = GuardedBroker()
    found = create(guarded(), broker, topic("a"), topic("b"), topic("a", 1))
    assert codes(found) == [("a", INVALID_REQUEST), ("b", 0)]
    assert list(broker.topics) == ["b"]
    for counts in ((3, 3), (1, 1)):
        assert codes(create(guarded(), broker, *(topic("c", one) for one in counts))) == [("c", INVALID_REQUEST)]


def test_in_shadow_all_is_created_and_counted() -> None:
    features, broker = guarded({**GUARD, "mode": "shadow"}), GuardedBroker({"old": Topic(1, 1)})
    found = create(features, broker, topic("A"), topic("b", -1), topic("c"), topic("old", -1))
    assert codes(found) == [("A", 0), ("b", 0), ("c", 0), ("old", EXISTS)]
    assert found.is_same
    denials = features.made["topic_guards"].denials
    assert denials is not None
    assert sorted((one.resource, one.mode, one.reason) for one in denials.newest()) == [
        ("A", "shadow", "naming"), ("b", "shadow", "partitions"),
    ]  # fmt: skip


def test_who_is_exempt_has_an_entry_before() -> None:
    features = guarded({"principals": ["User:admin"]}, GUARD)
    assert codes(create(features, GuardedBroker(), topic("A"), principal="User:admin")) == [("A", 0)]
    assert codes(create(features, GuardedBroker(), topic("A"), principal="User:other")) == [("A", POLICY_VIOLATION)]
    assert codes(create(features, GuardedBroker(), topic("A"))) == [("A", POLICY_VIOLATION)]


@FEWER
@given(st.lists(st.tuples(st.sampled_from("abcdefghABCDEFGH"), st.integers(-1, 8)), max_size=12), st.booleans())
def test_every_topic_has_its_result_at_its_place_and_only_those_that_comply_are_there(
    asked: list[tuple[str, int]], only: bool
) -> None:
    broker = GuardedBroker({"g": Topic(3, 1), "H": Topic(1, 1)}, partitions=4)
    before = dict(broker.topics)
    found = create(guarded(), broker, *(topic(name, count) for name, count in asked), only=only)
    counts: dict[str, list[int]] = {}
    for name, count in asked:
        counts.setdefault(name, []).append(count)
    assert [name for name, _ in codes(found)] == list(counts)
    for name, code in codes(found):
        complies = name.islower() and (3 <= counts[name][0] <= 6 or counts[name][0] == -1)
        if len(counts[name]) == 1:
            assert code == (EXISTS if name in before else 0 if complies else POLICY_VIOLATION)
        else:
            assert code == INVALID_REQUEST
    new = {name: one for name, one in broker.topics.items() if name not in before}
    assert all(name.islower() and 3 <= one.partitions <= 6 for name, one in new.items())
    assert not (only and new)


@pytest.mark.parametrize("version", range(4))
def test_a_topic_gets_no_more_partitions_than_its_guard_allows(version: int) -> None:
    broker = GuardedBroker({"a": Topic(3, 1), "b": Topic(3, 1)})
    topics = tuple(
        create_partitions.CreatePartitionsTopic(name=name, count=count, assignments=None)
        for name, count in (("a", 7), ("b", 6), ("gone", 7))
    )
    request = create_partitions.CreatePartitionsRequest(topics=topics, timeout_ms=1000)
    found = through(guarded(), broker, ApiKey.CREATE_PARTITIONS, version, request)
    assert codes(found, "results") == [("a", POLICY_VIOLATION), ("b", 0), ("gone", UNKNOWN)]
    assert (broker.topics["a"].partitions, broker.topics["b"].partitions) == (3, 6)


@pytest.mark.parametrize("version", DELETIONS)
def test_a_topic_that_may_not_be_deleted_stays(version: int) -> None:
    broker = GuardedBroker({"orders": Topic(3, 1), "free": Topic(3, 1), "payments": Topic(3, 1)})
    names = ("payments", "free", "orders")
    request = delete_topics.DeleteTopicsRequest(topic_names=names, timeout_ms=1000)
    if version >= 6:
        topics = tuple(delete_topics.DeleteTopicState(name=name) for name in names)
        request = delete_topics.DeleteTopicsRequest(topics=topics, timeout_ms=1000)
    found = through(guarded({"topics": ["free"]}, GUARD), broker, ApiKey.DELETE_TOPICS, version, request)
    assert sorted(codes(found, "responses")) == [
        ("free", 0), ("orders", POLICY_VIOLATION), ("payments", POLICY_VIOLATION),
    ]  # fmt: skip
    assert sorted(broker.topics) == ["orders", "payments"]


def deleted_by_id(features: Features, broker: GuardedBroker, *ids: bytes) -> dict[bytes, int]:
    topics = tuple(delete_topics.DeleteTopicState(name=None, topic_id=one) for one in ids)
    request = delete_topics.DeleteTopicsRequest(topics=topics, timeout_ms=1000)
    found = through(features, broker, ApiKey.DELETE_TOPICS, 6, request)
    return {one.topic_id: one.error_code for one in found.response.responses}


def test_a_topic_is_no_less_guarded_by_its_id() -> None:
    broker = GuardedBroker({"orders": Topic(3, 1), "free": Topic(3, 1)})
    found = deleted_by_id(guarded({"topics": ["free"]}, GUARD), broker, topic_id("orders"), topic_id("free"))
    assert found == {topic_id("orders"): POLICY_VIOLATION, topic_id("free"): 0}
    assert list(broker.topics) == ["orders"]


@pytest.mark.parametrize(("mode", "code"), [("enforce", 100), ("shadow", 0)])
def test_a_topic_whose_name_is_not_known_is_not_deleted_where_a_guard_might_forbid_it(mode: str, code: int) -> None:
    broker = GuardedBroker({"hidden": Topic(3, 1)})
    features = guarded({"topics": ["orders"], "delete": "deny", "mode": mode})
    assert deleted_by_id(features, broker, topic_id("hidden")) == {topic_id("hidden"): code}


def replaced(features: Features, broker: GuardedBroker, version: int, **configs: dict[str, str]) -> Exchanged:
    resources = tuple(
        alter_configs.AlterConfigsResource(
            resource_type=2,
            resource_name=name,
            configs=tuple(alter_configs.AlterableConfig(name=key, value=value) for key, value in of.items()),
        )
        for name, of in configs.items()
    )
    request = alter_configs.AlterConfigsRequest(resources=resources)
    return through(features, broker, ApiKey.ALTER_CONFIGS, version, request)


@pytest.mark.parametrize("version", range(3))
def test_configs_that_replace_all_others_are_guarded_and_so_are_those_that_they_take_away(version: int) -> None:
    broker = GuardedBroker({name: Topic(3, 1, dict(GOOD)) for name in "abc"})
    found = replaced(
        guarded(), broker, version, a={"cleanup.policy": "compact"}, b={"retention.ms": "1"},
        c={"retention.ms": "7200000", "cleanup.policy": "compact"}, gone={},
    )  # fmt: skip
    assert codes(found, "responses", "resource_name") == [
        ("a", POLICY_VIOLATION), ("b", POLICY_VIOLATION), ("c", 0), ("gone", UNKNOWN),
    ]  # fmt: skip
    assert broker.topics["a"].configs == broker.topics["b"].configs == GOOD
    assert broker.topics["c"].configs == {"retention.ms": "7200000", "cleanup.policy": "compact"}


def changed(
    features: Features, broker: GuardedBroker, *changes: tuple[str, int, str | None], version: int = 1, kind: int = 2
) -> Exchanged:
    configs = tuple(
        incremental.AlterableConfig(name=name, config_operation=operation, value=value)
        for name, operation, value in changes
    )
    resource = incremental.AlterConfigsResource(resource_type=kind, resource_name="a", configs=configs)
    request = incremental.IncrementalAlterConfigsRequest(resources=(resource,))
    return through(features, broker, ApiKey.INCREMENTAL_ALTER_CONFIGS, version, request)


@pytest.mark.parametrize("version", range(2))
@pytest.mark.parametrize(
    ("change", "code", "after"),
    [
        (("retention.ms", SET, "7200000"), 0, {"retention.ms": "7200000"}),
        (("retention.ms", SET, "1"), POLICY_VIOLATION, GOOD),
        (("retention.ms", DELETE, None), POLICY_VIOLATION, GOOD),
        (("retention.ms", APPEND, "1"), INVALID_CONFIG, GOOD),
        (("cleanup.policy", SET, "compact"), 0, GOOD | {"cleanup.policy": "compact"}),
        (("cleanup.policy", DELETE, None), 0, GOOD),
        (("cleanup.policy", APPEND, "compact"), POLICY_VIOLATION, GOOD),
        (("cleanup.policy", APPEND, "delete"), 0, GOOD | {"cleanup.policy": "delete"}),
        (("cleanup.policy", SUBTRACT, "delete"), POLICY_VIOLATION, GOOD),
        (("cleanup.policy", SUBTRACT, "compact"), 0, GOOD | {"cleanup.policy": "delete"}),
        (("segment.ms", SET, "1"), POLICY_VIOLATION, GOOD),
        (("segment.ms", DELETE, None), 0, GOOD),
    ],
)
def test_single_changes_are_guarded(
    version: int, change: tuple[str, int, str | None], code: int, after: dict[str, str]
) -> None:
    broker = GuardedBroker({"a": Topic(3, 1, dict(GOOD))})
    found = changed(guarded(), broker, change, version=version)
    assert codes(found, "responses", "resource_name") == [("a", code)]
    assert broker.topics["a"].configs == after


def test_the_value_that_was_checked_is_set_whatever_another_client_does_in_between() -> None:
    broker = GuardedBroker({"a": Topic(3, 1, {**GOOD, "cleanup.policy": "compact"})})
    found = changed(guarded(), broker, ("cleanup.policy", APPEND, "compact"), ("retention.ms", SET, "7200000"))
    assert codes(found, "responses", "resource_name") == [("a", 0)]
    (config, other) = broker.asked[-1][2].resources[0].configs
    assert (config.config_operation, config.value) == (SET, "compact")
    assert (other.config_operation, other.value) == (SET, "7200000")


def test_a_list_that_no_guard_limits_is_appended_to_by_the_broker() -> None:
    broker = GuardedBroker({"a": Topic(3, 1)})
    found = changed(guarded({"configs": {"retention.ms": RETENTION}}), broker, ("cleanup.policy", APPEND, "compact"))
    assert found.is_same
    assert broker.topics["a"].configs == {"cleanup.policy": "delete,compact"}


def test_a_topic_that_is_not_there_has_the_brokers_error() -> None:
    for change in (("cleanup.policy", APPEND, "compact"), ("retention.ms", SET, "1"), ("retention.ms", DELETE, None)):
        found = changed(guarded(), GuardedBroker(), change)
        assert codes(found, "responses", "resource_name") == [("a", UNKNOWN)]


def test_in_shadow_lists_are_appended_to_by_the_broker() -> None:
    features, broker = guarded({**GUARD, "mode": "shadow"}), GuardedBroker({"a": Topic(3, 1)})
    assert changed(features, broker, ("cleanup.policy", APPEND, "compact")).is_same
    assert broker.topics["a"].configs == {"cleanup.policy": "delete,compact"}
    denials = features.made["topic_guards"].denials
    assert denials is not None
    assert [one.message for one in denials.newest()] == [
        "a: cleanup.policy=delete,compact, allowed: delete or compact (topic_guards, entry 1)"
    ]


def test_configs_of_brokers_are_not_guarded() -> None:
    assert changed(guarded(), GuardedBroker(), ("retention.ms", SET, "1"), kind=4).is_same


def test_own_configs_of_the_sidecar_pass_to_the_feature_that_keeps_them() -> None:
    features = guarded(topic_configs={"topic": "kept"})
    broker = GuardedBroker()
    policy = "record.validation.policy"
    # What is set there is not known yet, so that feature refuses the topic; without it the guard does.
    found = create(features, broker, topic("a", configs={**GOOD, policy: "json"}))
    assert "Nothing was changed" in found.response.topics[0].error_message
    found = create(guarded(), broker, topic("a", configs={**GOOD, policy: "json"}))
    assert f"{policy} may not be set" in found.response.topics[0].error_message


def test_a_broker_is_not_asked_about_own_configs_which_it_does_not_know() -> None:
    broker = GuardedBroker()
    create(guarded(topic_configs={"topic": "kept"}), broker, topic("a", 1, configs={"record.validation.policy": "x"}))
    ((_, version, question),) = broker.asked
    assert version == 7
    assert question.validate_only
    assert question.topics[0].configs == ()
