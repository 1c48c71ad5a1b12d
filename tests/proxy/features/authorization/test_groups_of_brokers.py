"""Groups whose topics the broker finds or creates, with the sidecar's rights: their members need rights to these."""

from __future__ import annotations

from typing import Any

import pytest
from support import oracle
from support.authorization import GROUP_DENIED, TOPIC_DENIED, Site

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.envelope import decode_response, encode_request
from kafka_sidecar.codec.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafka_sidecar.codec.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    TopicInfo,
    Topology,
)
from kafka_sidecar.proxy.config.sections import AclRule
from kafka_sidecar.proxy.features.authorization.group_apis import beginning
from kafka_sidecar.proxy.relay.exchange import Respond, TopicIds

ALICE = "User:alice"


def rules(*topics: dict[str, Any]) -> list[AclRule]:
    groups = AclRule(principals=[ALICE], groups=["open"])
    return [groups, *(AclRule(**{"principals": [ALICE], **one}) for one in topics)]


def of_pattern(pattern: str | None, *topics: dict[str, Any], group: str = "open") -> int | None:
    """The error of a member that subscribes by a pattern; None: its request is forwarded."""
    request = ConsumerGroupHeartbeatRequest(group_id=group, member_id="m", subscribed_topic_regex=pattern)
    frame = encode_request(request, 1, 5, "app")
    step = Site(rules=rules(*topics)).exchange(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1).request(frame)
    if not isinstance(step, Respond):
        assert step is frame
        return None
    return int(oracle.read_response(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, step.frame)[1].error_code)


@pytest.mark.parametrize(
    ("pattern", "topics", "error"),
    [
        (".*", [{"topics": ["*"]}], None),
        (".*", [{"topics": ["*"], "operations": ["read"]}], None),
        (".*", [{"topics": ["*"], "operations": ["alter_configs"]}], TOPIC_DENIED),
        (".*", [{"topics": ["rx-open"]}], TOPIC_DENIED),
        (".*", [{"topics": ["rx-*"]}], TOPIC_DENIED),
        ("rx-.*", [{"topics": ["rx-*"]}], None),
        (r"^rx-\w+$", [{"topics": ["rx-*"]}], None),
        (r"rx\-open", [{"topics": ["rx-*"]}], None),
        ("rx-.*", [{"topics": ["rx-open"]}], TOPIC_DENIED),
        ("rx-.*|.*", [{"topics": ["rx-*"]}], TOPIC_DENIED),
        ("rx-*", [{"topics": ["rx-*"]}], TOPIC_DENIED),
        ("(?i)rx-.*", [{"topics": ["rx-*"]}], TOPIC_DENIED),
        (".*", [{"topics": ["*"]}, {"topics": ["rx-secret"], "permission": "deny"}], TOPIC_DENIED),
        ("rx-s.*", [{"topics": ["*"]}, {"topics": ["rx-secret"], "permission": "deny"}], TOPIC_DENIED),
        ("rx-s.*", [{"topics": ["*"]}, {"topics": ["*-secret"], "permission": "deny"}], TOPIC_DENIED),
        ("rx-o.*", [{"topics": ["*"]}, {"topics": ["rx-secret"], "permission": "deny"}], None),
        (".*", [{"topics": ["*"]}, {"topics": ["x"], "operations": ["write"], "permission": "deny"}], None),
        (None, [], None),
        ("", [], None),
    ],
)
def test_a_pattern_needs_the_right_to_describe_all_that_it_may_match(
    pattern: str | None, topics: list[dict[str, Any]], error: int | None
) -> None:
    assert of_pattern(pattern, *topics) == error


def test_the_group_comes_first() -> None:
    assert of_pattern(".*", group="closed") == GROUP_DENIED


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        (r"\Qa.b\E.*", ""), ("a+b", "a"), ("a{0}b", ""), ("ab?c", "a"), ("a.c", "a"), ("", ""), ("^^a", ""),
        (r"a\.b\d", "a.b"), (r"a\.*", "a"), (r"a\.+", "a."), ("[a]b", ""), ("é", ""), ("a$b", "a"), ("a\\", "a"),
    ],
)  # fmt: skip
def test_the_beginning_of_a_pattern_is_what_all_its_names_have(pattern: str, found: str) -> None:
    assert beginning(pattern) == found


@pytest.mark.parametrize("end", ["", "*", "?", "+", "{2}", "."])
def test_of_a_long_pattern_no_more_is_read_than_a_topics_name_has(end: str) -> None:
    for one in ("a", r"\-"):
        for count in range(247, 253):
            literal = one.removeprefix("\\") * (count - (end in ("*", "?", "{2}")))
            assert beginning(one * count + end) == literal[:249]
        assert beginning(one * 20_000_000 + end) == one.removeprefix("\\") * 249


def topology(*, regex: str = "") -> Topology:
    changelog = TopicInfo(name="st-changelog", partitions=0, replication_factor=-1)
    repartition = TopicInfo(name="st-repartition", partitions=0, replication_factor=-1)
    part = Subtopology(
        subtopology_id="0", source_topics=("st-in",), source_topic_regex=(regex,) if regex else (),
        state_changelog_topics=(changelog,), repartition_sink_topics=("st-repartition",),
        repartition_source_topics=(repartition,), copartition_groups=(),
    )  # fmt: skip
    return Topology(epoch=1, subtopologies=(part,))


def of_topology(wanted: Topology | None, existing: Any, *given: dict[str, Any], version: int = 1) -> int | None:
    request = StreamsGroupHeartbeatRequest(group_id="open", member_id="m", topology=wanted)
    frame = encode_request(request, version, 5, "app")
    exchange = Site(rules=rules(*given)).exchange(ApiKey.STREAMS_GROUP_HEARTBEAT, version)
    step = exchange.request(frame)
    if isinstance(step, TopicIds):
        assert step.names == ("st-changelog", "st-repartition")
        step = exchange.answer(existing)
    if not isinstance(step, Respond):
        assert step is frame
        return None
    return decode_response(StreamsGroupHeartbeatResponse, step.frame, version).message.error_code


DESCRIBES = {"topics": ["st-*"], "operations": ["describe"]}
BOTH = {"st-changelog": b"1" * 16, "st-repartition": b"2" * 16}


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize(
    ("existing", "given", "error"),
    [
        ({}, [DESCRIBES], TOPIC_DENIED),
        (None, [DESCRIBES], TOPIC_DENIED),
        ({"st-changelog": b"1" * 16}, [DESCRIBES], TOPIC_DENIED),
        (BOTH, [DESCRIBES], None),
        ({}, [DESCRIBES, {"topics": ["st-*"], "operations": ["create"]}], None),
        ({}, [DESCRIBES, {"cluster": True, "operations": ["create"]}], None),
        ({}, [{"topics": ["st-*"]}], None),
        (BOTH, [{"topics": ["st-in"]}], TOPIC_DENIED),
    ],
)
def test_a_topology_needs_the_right_to_create_those_internal_topics_that_there_are_not(
    version: int, existing: Any, given: list[dict[str, Any]], error: int | None
) -> None:
    assert of_topology(topology(), existing, *given, version=version) == error


def test_a_heartbeat_without_a_topology_needs_no_topic() -> None:
    assert of_topology(None, None) is None


def test_a_pattern_of_source_topics_is_one_of_topics_that_have_to_be_described() -> None:
    assert of_topology(topology(regex="st-.*"), BOTH, DESCRIBES) is None
    assert of_topology(topology(regex=".*"), BOTH, DESCRIBES) == TOPIC_DENIED
