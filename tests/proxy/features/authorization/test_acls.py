"""Rules are decided as Kafka's StandardAuthorizer decides its ACLs."""

from __future__ import annotations

import pytest

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.proxy.config.sections import AclRule
from kafka_sidecar.proxy.exchanges.messages import UNKNOWN
from kafka_sidecar.proxy.features.authorization.acls import Acls, Operation, Resource, Rule
from kafka_sidecar.proxy.features.authorization.authorization import rules_of

ALICE, BOB = "User:alice", "User:bob"
TOPIC, GROUP = Resource.TOPIC, Resource.GROUP


def rule(
    *operations: Operation, names: str = "orders", who: str = ALICE, allow: bool = True, resource: Resource = TOPIC
) -> Rule:
    return Rule((who,), allow, frozenset(operations), resource, (names,))


@pytest.mark.parametrize(
    ("rules", "operation", "is_allowed"),
    [
        ([rule(Operation.READ)], Operation.READ, True),
        ([rule(Operation.READ)], Operation.WRITE, False),
        ([rule(Operation.ALL)], Operation.WRITE, True),
        ([rule(Operation.READ)], Operation.DESCRIBE, True),
        ([rule(Operation.ALTER_CONFIGS)], Operation.DESCRIBE_CONFIGS, True),
        ([rule(Operation.ALTER_CONFIGS)], Operation.DESCRIBE, False),
        ([rule(Operation.ALL), rule(Operation.WRITE, allow=False)], Operation.WRITE, False),
        ([rule(Operation.ALL), rule(Operation.WRITE, allow=False)], Operation.READ, True),
        ([rule(Operation.ALL), rule(Operation.READ, allow=False)], Operation.DESCRIBE, True),
        ([rule(Operation.ALL, who=BOB)], Operation.READ, False),
        ([rule(Operation.ALL, who="User:*")], Operation.READ, True),
        ([rule(Operation.ALL, names="ord*")], Operation.READ, True),
        ([rule(Operation.ALL, names="other")], Operation.READ, False),
        ([rule(Operation.ALL, resource=GROUP)], Operation.READ, False),
    ],
)
def test_what_alice_may_do_with_orders(rules: list[Rule], operation: Operation, is_allowed: bool) -> None:
    assert Acls(rules, allowed_by_default=False).allows(ALICE, operation, TOPIC, "orders", ApiKey.FETCH) is is_allowed


def test_the_default_is_for_what_no_rule_names() -> None:
    acls = Acls([rule(Operation.READ, who=BOB)], allowed_by_default=True)
    assert acls.allows(ALICE, Operation.WRITE, TOPIC, "others", ApiKey.FETCH)
    assert not acls.allows(ALICE, Operation.READ, TOPIC, "orders", ApiKey.FETCH)


def test_super_users_may_do_everything() -> None:
    acls = Acls([rule(Operation.ALL, allow=False)], allowed_by_default=False, super_users=[ALICE])
    assert acls.allows(ALICE, Operation.WRITE, TOPIC, "orders", ApiKey.FETCH)


def test_a_client_without_a_login_is_kafkas_anonymous() -> None:
    acls = Acls([rule(Operation.READ, who="User:ANONYMOUS")], allowed_by_default=False)
    assert acls.allows(None, Operation.READ, TOPIC, "orders", ApiKey.FETCH)
    assert not acls.allows(ALICE, Operation.READ, TOPIC, "orders", ApiKey.FETCH)


@pytest.mark.parametrize("pattern", ["User:*", "*"])
def test_no_pattern_allows_anything_to_a_login_under_an_unknown_name(pattern: str) -> None:
    rule = AclRule(principals=[pattern], topics=["*"])
    for default in (False, True):
        assert not Acls(rules_of([rule]), default).allows(UNKNOWN, Operation.READ, Resource.TOPIC, "t", 1)


def test_a_login_under_an_unknown_name_is_allowed_what_a_rule_with_that_name_says() -> None:
    acls = Acls(rules_of([AclRule(principals=["User:bob", UNKNOWN], topics=["t"])]), False)
    assert acls.allows(UNKNOWN, Operation.READ, Resource.TOPIC, "t", 1)
    assert not acls.allows(UNKNOWN, Operation.READ, Resource.TOPIC, "other", 1)


def test_what_is_denied_to_anybody_is_denied_to_a_login_under_an_unknown_name() -> None:
    """It may be that one's."""
    denied = AclRule(principals=["User:alice"], topics=["t"], operations=["write"], permission="deny")
    acls = Acls(rules_of([AclRule(principals=[UNKNOWN], topics=["*"]), denied]), False)
    assert not acls.allows(UNKNOWN, Operation.WRITE, Resource.TOPIC, "t", 0)
    assert acls.allows(UNKNOWN, Operation.READ, Resource.TOPIC, "t", 1)


def test_where_no_rule_names_a_topic_the_default_is_for_everybody() -> None:
    acls = Acls(rules_of([AclRule(principals=["User:alice"], topics=["t"], permission="deny")]), True)
    assert acls.allows(UNKNOWN, Operation.READ, Resource.TOPIC, "other", 1)
    assert not acls.allows(UNKNOWN, Operation.READ, Resource.TOPIC, "t", 1)


@pytest.mark.parametrize(
    ("rules", "default", "prefix", "expected"),
    [
        ([], True, "", True),
        ([], False, "", False),
        ([AclRule(principals=["User:bob"], topics=["secret"])], True, "", False),
        ([AclRule(principals=["User:bob"], topics=["secret"])], True, "orders", True),
        ([AclRule(topics=["a?*"])], False, "abc", False),
    ],
)
def test_all_that_begins_alike_is_allowed_only_as_far_as_patterns_say(
    rules: list[AclRule], default: bool, prefix: str, expected: bool
) -> None:
    acls = Acls(rules_of(rules), default, ["User:root"])
    assert acls.allows_all("User:alice", Operation.DESCRIBE, Resource.TOPIC, prefix, 68) is expected
    assert acls.allows_all("User:root", Operation.DESCRIBE, Resource.TOPIC, prefix, 68)
