"""What of a request violates a guard."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_sidecar.proxy.config.topic_guards import TopicGuard
from kafka_sidecar.proxy.features.topic_guards.guards import (
    MAX_LISTED,
    Creation,
    Guard,
    Guards,
    Operation,
    Violation,
    describe,
)

SET, DELETE = Operation.SET, Operation.DELETE
RETENTION = {"retention.ms": {"min": 3600000, "max": 604800000, "required": True}}


def guard(**settings: Any) -> Guard:
    return Guard(1, TopicGuard(**settings))


def creation(name: str = "a.b", partitions: int | None = 3, factors: Any = (3,), **configs: str | None) -> Creation:
    return Creation(name, partitions, factors, [(key.replace("_", "."), value) for key, value in configs.items()])


def texts(of: Any) -> list[str]:
    return [one.text for one in of]


def created(of: Guard, *own: str, **values: Any) -> list[str]:
    return texts(of.of_creation(creation(**values), own))


def test_a_guard_without_settings_refuses_nothing() -> None:
    assert created(guard(), name="Anything!", partitions=1, factors=(1, 2), retention_ms="x") == []


@pytest.mark.parametrize(
    ("value", "is_accepted"),
    [
        ("3600000", True), ("604800000", True), ("+3600000", True), (" 3600000 ", True), ("3600000.5", True),
        ("3.6e6", True), ("3599999", False), ("604800001", False), ("-1", False), ("", False), ("1h", False),
        ("3_600_000", False), ("٣٦٠٠٠٠٠", False), ("NaN", False), ("Infinity", False), ("0x36ee80", False),
        ("3600000L", False), ("3600000f", False), ("9" * 5000, False), ("1e999", False), ("3600000\n4", False),
        ("\u20033600000", False),
    ],
)  # fmt: skip
def test_a_number_is_what_every_broker_reads_as_this_number(value: str, is_accepted: bool) -> None:
    found = created(guard(configs=RETENTION), retention_ms=value)
    assert (found == []) is is_accepted
    assert all("allowed: 3600000 to 604800000" in one and len(one) < 200 for one in found)


@given(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1))
def test_longs_are_compared_exactly(value: int, one: int, other: int) -> None:
    low, high = sorted((one, other))
    found = created(guard(configs={"retention.ms": {"min": low, "max": high}}), retention_ms=str(value))
    assert (found == []) is (low <= value <= high)


@pytest.mark.parametrize(
    ("value", "is_accepted"),
    [
        ("delete", True), ("compact,delete", True), ("delete,compact", True), ("delete, compact", True),
        ("compact", False), ("delete,delete", True), ("DELETE", False), ("", False), ("compact,delete,", False),
    ],
)  # fmt: skip
def test_the_order_of_a_list_does_not_count(value: str, is_accepted: bool) -> None:
    allowed = {"cleanup.policy": {"values": ["delete", "compact,delete"]}}
    assert (created(guard(configs=allowed), cleanup_policy=value) == []) is is_accepted


def test_all_that_a_new_topic_violates_is_said_with_what_is_allowed() -> None:
    of = guard(
        naming="[a-z]+", partitions={"min": 3, "max": 50}, replication_factor={"min": 3, "max": 3},
        configs={**RETENTION, "min.insync.replicas": {"values": [2]}}, other_configs="deny",
    )  # fmt: skip
    found = created(of, name="A", partitions=1, factors=(3, 2, 2, 1), min_insync_replicas="1", x="1")
    assert found == [
        "its name does not match [a-z]+: choose another one",
        "partitions=1, allowed: 3 to 50",
        "replication.factor=1, allowed: 3",
        "replication.factor=2, allowed: 3",
        "retention.ms is missing: set it to 3600000 to 604800000",
        "min.insync.replicas=1, allowed: 2",
        "x may not be set, allowed: retention.ms, min.insync.replicas",
    ]
    assert created(of, name="a", retention_ms="3600000", min_insync_replicas="2") == []


def test_a_name_has_to_match_as_a_whole() -> None:
    of = guard(naming="[a-z]+|x.y")
    assert created(of, name="orders") == created(of, name="x.y") == []
    assert created(of, name="orders.1") != []
    assert created(of, name="orders\n") != []
    assert created(of, name="\udcff") != []


def test_creation_can_be_denied() -> None:
    assert created(guard(create="deny")) == ["it may not be created: ask those who operate the cluster"]


def test_a_config_that_has_to_be_there_is_not_there_as_null() -> None:
    assert created(guard(configs=RETENTION), retention_ms=None) != []


def test_configs_of_the_sidecar_are_no_other_configs_unless_they_are_named() -> None:
    of = guard(other_configs="deny")
    assert created(of, "own.config", own_config="x") == []
    assert created(of, own_config="x") != []
    of = guard(other_configs="deny", configs={"own.config": {"values": ["y"]}})
    assert created(of, "own.config", own_config="x") != []


def test_open_are_only_numbers_that_are_limited() -> None:
    unknown = creation(partitions=None, factors=None)
    assert not guard(naming="a").depends_on_defaults(unknown)
    assert guard(partitions={"max": 3}).depends_on_defaults(unknown)
    assert guard(replication_factor={"min": 3}).depends_on_defaults(unknown)
    assert not guard(partitions={"max": 3}).depends_on_defaults(creation(partitions=1, factors=None))


def test_more_partitions_are_compared_with_the_highest_number_alone() -> None:
    of = guard(partitions={"min": 3, "max": 6})
    assert texts(of.of_partitions(7)) == ["partitions=7, allowed: 3 to 6"]
    assert texts(of.of_partitions(6)) == texts(of.of_partitions(2)) == []
    assert texts(guard(partitions={"min": 3}).of_partitions(1)) == []


def test_configs_that_replace_all_others_have_to_name_those_that_are_required() -> None:
    of = guard(configs=RETENTION)
    assert texts(of.of_replaced([], ())) == ["retention.ms is missing: set it to 3600000 to 604800000"]
    assert texts(of.of_replaced([("retention.ms", "1")], ())) == ["retention.ms=1, allowed: 3600000 to 604800000"]
    assert texts(of.of_replaced([("retention.ms", "3600000"), ("other", "1")], ())) == []


def test_what_is_required_is_not_deleted_and_what_is_limited_may_be() -> None:
    of = guard(configs={**RETENTION, "cleanup.policy": {"values": ["delete"]}}, other_configs="deny")
    changes = [("retention.ms", DELETE, None), ("cleanup.policy", DELETE, None), ("other", DELETE, None)]
    assert texts(of.of_incremental(changes, ())) == ["retention.ms is required: set it to 3600000 to 604800000"]
    assert texts(of.of_incremental([("retention.ms", SET, "3600000")], ())) == []
    assert len(texts(of.of_incremental([("other", SET, "x"), ("cleanup.policy", SET, "compact")], ()))) == 2


def test_an_operation_that_is_not_known_sets_a_value() -> None:
    assert len(texts(guard(configs=RETENTION).of_incremental([("retention.ms", 9, "1")], ()))) == 1


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"naming": "x"}, 1), ({"naming": "a.b"}, 0), ({"create": "deny"}, 1), ({"partitions": {"max": 3}}, 1),
        ({"replication_factor": {"max": 3}}, 1), ({"configs": RETENTION}, 1), ({}, 0),
        ({"configs": {"retention.ms": {"max": 1}}}, 0), ({"other_configs": "deny"}, 0), ({"delete": "deny"}, 0),
    ],
)  # fmt: skip
def test_a_topic_that_is_only_named_has_nothing_that_a_guard_wants_to_be_said(
    settings: dict[str, Any], expected: int
) -> None:
    assert len(texts(guard(**settings).of_automatic_creation("a.b"))) == expected
    assert guard(**settings).limits_automatic_creation == (expected > 0 or "naming" in settings)


def test_the_first_entry_that_matches_topic_and_principal_applies() -> None:
    entries = [
        TopicGuard(topics=["orders.*", "payments"], principals=["User:team-*"]),
        TopicGuard(topics=["orders.?"]),
        TopicGuard(principals=["User:ANONYMOUS"]),
        TopicGuard(principals=["Unknown:login"]),
    ]
    guards = Guards(entries)

    def number(topic: str, principal: str | None) -> int | None:
        found = guards.of(topic, principal)
        return found.number if found is not None else None

    assert number("orders.a", "User:team-1") == 1
    assert number("orders.a", "User:other") == number("orders.b", None) == 2
    assert number("payments", None) == number("orders.aa", None) == 3
    assert number("payments", "User:other") is None
    assert number("payments", "Unknown:login") == 4


def test_an_entry_for_everyone_is_for_those_whose_names_only_the_broker_knows() -> None:
    assert Guards([TopicGuard()]).of("any", "Unknown:login") is not None


def test_a_message_is_short_whatever_a_client_sends() -> None:
    of = guard(other_configs="deny")
    violations = list(of.of_creation(Creation("t", 1, (1,), [("x" * 30_000, "1")] * 100), ()))
    assert len(violations) == 100
    message = describe("t", of, violations)
    assert len(message) < MAX_LISTED * 200
    assert message.endswith(f"; and {100 - MAX_LISTED} more (topic_guards, entry 1)")
    assert isinstance(violations[0], Violation)
