"""What a client may see of groups and transactions that it may describe, as KafkaApis filters them. Read by kio."""

from __future__ import annotations

from typing import Any

import pytest
from support import oracle
from support.authorization import GROUP_DENIED, RULES, TOPIC_DENIED, Site, codes_in, pairs

from kafka_sidecar.codec.apis import APIS, ApiKey
from kafka_sidecar.proxy.config.sections import AclRule

OTHER_GROUP = AclRule(principals=["User:alice"], groups=["other"])


def described(key: ApiKey, version: int, request: dict[str, Any], **response: Any) -> Any:
    """The response as the client gets it."""
    exchange = Site().exchange(key, version)
    assert isinstance(exchange.request(oracle.request_frame(oracle.request(key, version, **request), 5)), bytes)
    frame = exchange.response(oracle.response_frame(oracle.response(key, version, **response), 5))
    assert isinstance(frame, bytes)
    return oracle.read_response(key, version, frame)[1]


def member(key: ApiKey, assigned: str, target: str) -> dict[str, Any]:
    def of(topic: str) -> dict[str, Any]:
        return {"topic_partitions": [{"topic_name": topic, "partitions": [0]}]}

    found = {"member_id": "m", "assignment": of(assigned)}
    return found | ({"target_assignment": of(target)} if key is ApiKey.CONSUMER_GROUP_DESCRIBE else {})


def group(**values: Any) -> dict[str, Any]:
    return {"group_id": "open", "group_state": "Stable", **values}


DESCRIBED = [ApiKey.CONSUMER_GROUP_DESCRIBE, ApiKey.SHARE_GROUP_DESCRIBE]


@pytest.mark.parametrize(("key", "version"), pairs(*DESCRIBED))
def test_a_group_is_hidden_for_one_topic_that_the_client_may_not_describe(key: ApiKey, version: int) -> None:
    asked = {"group_ids": ["open"]}
    shown = described(key, version, asked, groups=[group(members=[member(key, "open", "open")])])
    assert len(shown.groups[0].members) == 1
    assert codes_in(shown) == set()
    members = [member(key, "open", "open"), member(key, "closed", "open")]
    hidden = described(key, version, asked, groups=[group(members=members)])
    assert [one.group_id for one in hidden.groups] == ["open"]
    assert hidden.groups[0].members == ()
    assert codes_in(hidden) == {TOPIC_DENIED}


@pytest.mark.parametrize(("key", "version"), pairs(ApiKey.CONSUMER_GROUP_DESCRIBE))
def test_a_target_assignment_counts_as_well(key: ApiKey, version: int) -> None:
    members = [member(key, "open", "closed")]
    assert codes_in(described(key, version, {"group_ids": ["open"]}, groups=[group(members=members)])) == {TOPIC_DENIED}


@pytest.mark.parametrize("closed_in", ["source_topics", "state_changelog_topics"])
def test_a_streams_group_is_hidden_for_one_topic_of_its_topology(closed_in: str) -> None:
    info = {"name": "closed", "partitions": 1, "replication_factor": 1}
    part: dict[str, Any] = {"subtopology_id": "0", "source_topics": ["open"]}
    part |= {closed_in: ["closed"] if closed_in == "source_topics" else [info]}
    for parts, codes in (([part], {TOPIC_DENIED}), ([{"subtopology_id": "0", "source_topics": ["open"]}], set())):
        one = group(topology={"epoch": 1, "subtopologies": parts})
        assert codes_in(described(ApiKey.STREAMS_GROUP_DESCRIBE, 0, {"group_ids": ["open"]}, groups=[one])) == codes


@pytest.mark.parametrize("is_named", [True, False])
def test_offsets_of_a_share_group_leave_out_denied_topics_or_have_their_error(is_named: bool) -> None:
    topics = [
        {"topic_name": name, "partitions": [{"partition_index": 3, "start_offset": 7, "leader_epoch": 1}]}
        for name in (("open",) if is_named else ("open", "closed"))
    ]
    asked = [{"topic_name": name, "partitions": [3]} for name in ("open", "closed")] if is_named else None
    request = {"groups": [{"group_id": "open", "topics": asked}]}
    response = described(
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, 0, request, groups=[{"group_id": "open", "topics": topics}]
    )
    (found,) = response.groups
    seen = [(one.topic_name, int(one.partitions[0].error_code), one.partitions[0].start_offset) for one in found.topics]
    assert seen == [("open", 0, 7), *([("closed", TOPIC_DENIED, -1)] if is_named else [])]


def test_denied_topics_of_share_groups_do_not_reach_the_broker_and_groups_keep_their_order() -> None:
    """A broker never answers for the offsets of some topics, such as __consumer_offsets."""
    key, site = ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, Site(rules=[*RULES, OTHER_GROUP])

    def asked(*groups: tuple[str, tuple[str, ...]]) -> bytes:
        named = [
            {"group_id": group, "topics": [{"topic_name": topic, "partitions": [3, 4]} for topic in topics]}
            for group, topics in groups
        ]
        return oracle.request_frame(oracle.request(key, 0, groups=named), 5)

    exchange = site.exchange(key, 0)
    sent = exchange.request(asked(("closed", ("open",)), ("other", ("closed",)), ("open", ("closed", "open"))))
    assert sent == asked(("other", ()), ("open", ("open",)))
    assert site.denied == {(APIS[key].name, "describe", kind): 1 + (kind == "topic") for kind in ("group", "topic")}
    answers = [{"group_id": "other", "error_code": 69}, {"group_id": "open", "topics": [{"topic_name": "open"}]}]
    frame = exchange.response(oracle.response_frame(oracle.response(key, 0, groups=answers), 5))
    assert isinstance(frame, bytes)
    closed, other, opened = oracle.read_response(key, 0, frame)[1].groups
    assert [(one.group_id, int(one.error_code)) for one in (closed, other, opened)] == [
        ("closed", GROUP_DENIED), ("other", 69), ("open", 0),
    ]  # fmt: skip
    assert other.topics == ()
    assert [one.topic_name for one in opened.topics] == ["open", "closed"]
    denied = [(one.partition_index, int(one.error_code), one.start_offset) for one in opened.topics[1].partitions]
    assert denied == [(3, TOPIC_DENIED, -1), (4, TOPIC_DENIED, -1)]


def test_the_topics_of_a_transaction_leave_out_denied_ones() -> None:
    topics = [{"topic": name, "partitions": [1]} for name in ("open", "closed")]
    state = {"transactional_id": "open", "transaction_state": "Ongoing", "topics": topics}
    response = described(ApiKey.DESCRIBE_TRANSACTIONS, 0, {"transactional_ids": ["open"]}, transaction_states=[state])
    assert [one.topic for one in response.transaction_states[0].topics] == ["open"]


def test_topics_that_a_transaction_leaves_out_are_denials() -> None:
    site, topics = Site(), [{"topic": name, "partitions": [1]} for name in ("open", "closed")]
    exchange = site.exchange(ApiKey.DESCRIBE_TRANSACTIONS, 0)
    asked = oracle.request(ApiKey.DESCRIBE_TRANSACTIONS, 0, transactional_ids=["open"])
    exchange.request(oracle.request_frame(asked, 5))
    states = [{"transactional_id": "open", "topics": topics}]
    exchange.response(
        oracle.response_frame(oracle.response(ApiKey.DESCRIBE_TRANSACTIONS, 0, transaction_states=states), 5)
    )
    (denial,) = site.denials.newest()
    assert (denial.api, denial.operation, denial.resource) == ("DescribeTransactions", "describe", "closed")
    assert site.denied == {("DescribeTransactions", "describe", "topic"): 1}
