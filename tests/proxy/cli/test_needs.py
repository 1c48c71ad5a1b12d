"""The topics and rights that `validate --connect` looks for are those that the configuration needs."""

from __future__ import annotations

from typing import Any

from kafka_sidecar.proxy.cli.connect.topics import MAX_MATCHES, Creation, Need, has_patterns, needs_of
from kafka_sidecar.proxy.config.loading import Config


def config(**settings: Any) -> Config:
    return Config.model_validate({"bootstrap_servers": "kafka-1:9092", **settings})


def test_a_sidecar_that_only_relays_needs_nothing() -> None:
    assert needs_of(config(), ["orders"]) == []


def test_names_have_to_exist_and_patterns_do_not() -> None:
    settings = config(
        topics=[{"name": "orders"}, {"name": "pay*"}],
        producers=[{"topics": ["shipments", "a*"], "acks": "all"}],
        rate_limits=[{"name": "all", "topics": ["clicks"], "requests": 5}],
        interceptors=[{"type": "latency", "topics": ["*", "views"]}],
    )
    assert {(one.topic, one.setting) for one in needs_of(settings, [])} == {
        ("orders", "topics (entry 1)"),
        ("shipments", "producers (entry 1).topics"),
        ("clicks", "rate_limits (entry 1).topics"),
        ("views", "interceptors (entry 1).topics"),
    }


def test_what_the_sidecar_writes_itself_it_may_also_create() -> None:
    settings = config(
        audit={"topic": "audited", "partitions": 3, "access": "all", "access_topic": "access"},
        topic_configs={"topic": "configs", "replication_factor": 2},
    )
    found = {one.topic: one for one in needs_of(settings, [])}
    assert found["audited"].operations == found["access"].operations == ("Write",)
    assert found["audited"].creation is not None
    assert found["audited"].creation.partitions == 3
    compacted = Creation(1, 2, {"cleanup.policy": "compact"})
    assert found["configs"] == Need("configs", "topic_configs.topic", ("Read", "Write"), creation=compacted)


def test_an_access_topic_that_is_not_written_is_not_needed() -> None:
    assert needs_of(config(audit={"access_topic": "access"}), []) == []


def test_dead_letter_topics_are_those_of_each_topic_that_matches() -> None:
    topics = [{"name": "pay*", "dead_letters": "{topic}.dlq"}, {"name": "orders", "dead_letters": "all.dlq"}]
    settings = config(topics=topics)
    assert has_patterns(settings)
    found = needs_of(settings, ["payments", "payouts", "orders"])
    letters = [one for one in found if one.operations]
    assert [one.topic for one in letters] == ["payments.dlq", "payouts.dlq", "all.dlq"]
    assert {one.operations for one in letters} == {("Write",)}
    assert {one.creation for one in letters} == {None}
    assert {one.create_with for one in letters} == {"dead_letters.create"}


def test_a_pattern_that_matches_thousands_is_cut() -> None:
    settings = config(topics=[{"name": "*", "dead_letters": "{topic}.dlq"}])
    assert len(needs_of(settings, [f"topic-{number}" for number in range(5000)])) == MAX_MATCHES


def test_limits_of_large_messages_are_asked_for_unless_the_file_has_them() -> None:
    topics = [
        {"name": "a"},
        {"name": "b", "max_batch": "1MiB"},
        {"name": "c", "enabled": False},
        {"name": "d*"},
    ]
    found = {one.topic: one.does_without for one in needs_of(config(large_messages={"topics": topics}), [])}
    assert found == {"a": ("DescribeConfigs",), "b": ()}


def test_a_topic_that_is_named_twice_is_looked_at_once() -> None:
    settings = config(topics=[{"name": "orders"}], producers=[{"topics": ["orders"], "acks": "all"}])
    assert [one.topic for one in needs_of(settings, [])] == ["orders"]
