"""Attacks on what rules and topic configs look into: very many elements, and long answers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from hostile.attacks import Attack, Place, sends
from hostile.wire import INT32, array, converse, frame, string

# A hundred rules, of which one lets honest clients do all that they do; the attacker's topics are denied.
RULES = """
authorization:
  rules:
    - {principals: ["User:ANONYMOUS"], topics: [honest, large, "wide-*"], groups: ["*"], cluster: true}
""" + "".join(
    f'    - {{principals: ["User:team-{at}"], topics: ["team-{at}-*"], groups: ["team-{at}-*"]}}\n' for at in range(99)
)
TOPIC_CONFIGS = "topic_configs: {topic: kept-configs, replication_factor: 1}\n"
POLICY = b"record.validation.policy"
METADATA, FIND_COORDINATOR, LIST_OFFSETS, DELETE_TOPICS, INCREMENTAL, DESCRIBE_CONFIGS = 3, 10, 2, 20, 44, 32


def names(count: int, size: int = 0) -> list[bytes]:
    return [b"team-%d" % number + b"x" * size for number in range(count)]


def metadata(count: int, size: int = 0) -> bytes:
    return frame(METADATA, 8, array(map(string, names(count, size))) + b"\1\0\0")


def all_metadata(times: int) -> bytes:
    return b"".join(frame(METADATA, 8, INT32.pack(-1) + b"\0\0\0", number) for number in range(times))


def list_offsets(count: int) -> bytes:
    partition = array([INT32.pack(0) + b"\xff" * 8])
    topics = (string(name) + partition for name in names(count))
    return frame(LIST_OFFSETS, 3, INT32.pack(-1) + b"\0" + array(topics))


def describe_configs(count: int) -> bytes:
    return frame(DESCRIBE_CONFIGS, 2, array(b"\2" + string(name) + INT32.pack(-1) for name in names(count)) + b"\0")


def delete_topics(count: int) -> bytes:
    return frame(DELETE_TOPICS, 3, array(map(string, names(count))) + INT32.pack(1000))


def set_policies(count: int) -> bytes:
    config = array([string(POLICY) + b"\0" + string(b"nope")])
    return frame(INCREMENTAL, 0, array(b"\2" + string(name) + config for name in names(count)) + b"\0")


def create_with_policies(count: int) -> bytes:
    """Topics with a policy each, of another argument each; nothing is created."""
    policies = (array([string(POLICY) + string(b"require_header:%d" % number)]) for number in range(count))
    topics = (
        string(name) + b"\0\0\0\1\0\1" + array([]) + own for name, own in zip(names(count), policies, strict=True)
    )
    return frame(19, 3, array(topics) + INT32.pack(30_000) + b"\1")


def create_wide(place: Place) -> None:
    """Ten thousand partitions in a thousand topics that clients may describe; then all of them, again and again."""
    topics = (string(b"wide-%d" % number) + INT32.pack(10) + b"\0\1" + array([]) + array([]) for number in range(1000))
    converse(place.kafka, frame(19, 3, array(topics) + INT32.pack(30_000) + b"\0"), 30.0, quiet_s=15.0)
    converse(place.kafka, all_metadata(200), place.limit_s, quiet_s=2.0)


def attack(name: str, make: Callable[[], bytes], more: str) -> Attack:
    return Attack(name, sends(make), more=more)


APIS = (
    attack("42: rules: Metadata of 200,000 topics", partial(metadata, 200_000), RULES),
    attack("43: rules: Metadata of 3,000 topics, names of 30 KB", partial(metadata, 3_000, 30_000), RULES),
    attack("44: rules: Metadata of 10,000 topics, all denied", partial(metadata, 10_000), RULES),
    attack("45: rules: ListOffsets of 200,000 topics", partial(list_offsets, 200_000), RULES),
    attack("46: rules: ListOffsets of 10,000 topics, all denied", partial(list_offsets, 10_000), RULES),
    Attack("47: rules: 10,000 partitions, described 200 times", lambda: create_wide, more=RULES),
    attack("48: topic configs: DeleteTopics of 200,000 topics", partial(delete_topics, 200_000), TOPIC_CONFIGS),
    attack("49: topic configs: unknown policies of 1,000 topics (38 KB)", partial(set_policies, 1_000), TOPIC_CONFIGS),
    attack("50: topic configs: unknown policies of 100,000 topics", partial(set_policies, 100_000), TOPIC_CONFIGS),
    attack("69: topic configs: 1,000 new topics, a policy each", partial(create_with_policies, 1_000), TOPIC_CONFIGS),
    attack("51: topic configs: DescribeConfigs of 10,000 topics", partial(describe_configs, 10_000), TOPIC_CONFIGS),
)  # fmt: skip
