"""Guards of topics as a feature: when it looks into what, what operators see, and configurations that are wrong."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from support.admin import command, get_json, pages
from support.features import load, started
from support.guarded_broker import GuardedBroker, through

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafka_sidecar.proxy.config.loading import load as load_config
from kafka_sidecar.proxy.config.mistakes import ConfigError
from kafka_sidecar.proxy.features.compose import Features, find_mistakes
from kafka_sidecar.proxy.telemetry.logs import KEYS

LIMITED: dict[str, Any] = {"partitions": {"max": 50}}
CONFIGS = {ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS}
CREATING = {ApiKey.CREATE_TOPICS, ApiKey.METADATA, ApiKey.STREAMS_GROUP_HEARTBEAT}
CONFIGURED = {ApiKey.CREATE_TOPICS, ApiKey.STREAMS_GROUP_HEARTBEAT}


def created(features: Features, *names: str, partitions: int = 60) -> list[tuple[int, Any]]:
    """Error code and message of each topic."""
    topics = tuple(CreatableTopic(name=name, num_partitions=partitions, replication_factor=1) for name in names)
    request = CreateTopicsRequest(topics=topics)
    found = through(features, GuardedBroker(), ApiKey.CREATE_TOPICS, 7, request, "User:alice")
    return [(one.error_code, one.error_message) for one in found.response.topics]


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({}, set()),
        (LIMITED, {ApiKey.CREATE_PARTITIONS, *CREATING}),
        ({"partitions": {"min": 3}}, CREATING),
        ({"replication_factor": {"min": 3}}, {*CREATING, ApiKey.ALTER_PARTITION_REASSIGNMENTS}),
        ({"naming": "x"}, CREATING),
        ({"create": "deny"}, CREATING),
        ({"delete": "deny"}, {ApiKey.DELETE_TOPICS}),
        ({"configs": {"retention.ms": {"max": 1}}}, {*CONFIGURED, *CONFIGS}),
        ({"configs": {"retention.ms": {"required": True}}}, {*CREATING, *CONFIGS}),
        ({"other_configs": "deny"}, {*CONFIGURED, *CONFIGS}),
    ],
)
def test_only_apis_of_which_an_entry_says_something_are_looked_into(entry: dict[str, Any], expected: set[int]) -> None:
    nothing = {"type": "latency", "topics": ["other"]}
    without = set(started(nothing)._exchanges)
    assert set(started(nothing, topic_guards=[entry])._exchanges) == without | expected


def test_records_are_not_looked_into() -> None:
    features = started(topic_guards=[{**LIMITED, "naming": "x", "delete": "deny", "other_configs": "deny"}])
    with_records = {ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.SHARE_FETCH, ApiKey.OFFSET_COMMIT}
    stages = features.made["topic_guards"].stages()
    assert not stages.messages.keys() & with_records
    assert (stages.produce, stages.produce_checks, stages.fetch, stages.acquired) == ((), (), (), ())
    assert (stages.produce_guard, stages.fetch_guard) == (None, None)


def test_a_reload_applies_to_requests_that_begin_then() -> None:
    features = started(topic_guards=[LIMITED])
    assert [code for code, _ in created(features, "a")] == [44]
    load(features, topic_guards=[{"partitions": {"max": 60}}])
    assert [code for code, _ in created(features, "a")] == [0]
    load(features)
    assert [code for code, _ in created(features, "a", partitions=1000)] == [0]
    load(features, topic_guards=[LIMITED])
    assert [code for code, _ in created(features, "a")] == [44]


def test_what_is_refused_is_counted_by_api_rule_and_mode(caplog: pytest.LogCaptureFixture) -> None:
    features = started(topic_guards=[{"topics": ["s*"], **LIMITED, "mode": "shadow"}, {**LIMITED, "naming": "[a-z]"}])
    created(features, "a", "B", "shadowed")
    (family,) = features.made["topic_guards"].families()
    assert (family.name, family.labels) == ("topic_guard_violations", ("api_key", "rule", "mode"))
    assert family.samples == {
        ("CreateTopics", "partitions", "enforce"): 1, ("CreateTopics", "naming", "enforce"): 1,
        ("CreateTopics", "partitions", "shadow"): 1,
    }  # fmt: skip
    lines = [vars(one) for one in caplog.records if one.getMessage() == "topic guard"]
    wanted = {
        "levelno": logging.WARNING, "topic": "B", "mode": "enforce", "reason": "naming", "api": "CreateTopics",
        "operation": "create", "principal": "User:alice", "client_id": "app", "session": 7, "suppressed": 0,
    }  # fmt: skip
    (line,) = [one for one in lines if one["topic"] == "B"]
    assert {key: line[key] for key in wanted} == wanted
    assert line["detail"].startswith("B: its name does not match [a-z]: choose another one; partitions=60, allowed")
    assert set(wanted) - {"levelno"} <= KEYS


def test_requests_that_comply_are_not_counted(caplog: pytest.LogCaptureFixture) -> None:
    features = started(topic_guards=[LIMITED])
    created(features, "a", partitions=50)
    (family,) = features.made["topic_guards"].families()
    assert not family.samples
    assert "topic guard" not in caplog.text


async def test_what_is_refused_is_explained_by_the_id_that_its_client_got() -> None:
    async with pages("127.0.0.1:1", topic_guards=[LIMITED]) as (server, port):
        ((_, message),) = created(server.features, "orders")
        found = message.rpartition("explain ")[2].rstrip(")")
        explained = await get_json(port, f"/rejections/{found}")
        assert (explained["policy"], explained["reason"]) == ("(topic guards)", "partitions")
        assert (explained["topic"], explained["mode"], explained["outcome"]) == ("orders", "enforce", "denied")
        assert explained["message"] == message.partition(" (kafka-sidecar")[0]
        assert explained["client"]["principal"] == "User:alice"
        assert explained["denial"]["api"] == "CreateTopics"
        assert "topic_guards" in explained["remedy"]
        (listed,) = (await get_json(port, "/rejections"))["rejections"]
        assert listed["id"] == found
        shown = await command(port, "explain", found)
        assert shown.exit_code == 0
        assert "partitions=60, allowed: 50 at most" in shown.output


async def test_in_shadow_what_would_be_refused_is_listed_as_allowed() -> None:
    async with pages("127.0.0.1:1", topic_guards=[{**LIMITED, "mode": "shadow"}]) as (server, port):
        assert created(server.features, "orders") == [(0, None)]
        (listed,) = (await get_json(port, "/rejections"))["rejections"]
        explained = await get_json(port, f"/rejections/{listed['id']}")
        assert (listed["mode"], explained["outcome"]) == ("shadow", "allowed")


WRONG: list[tuple[str, str]] = [
    ("naming: '['", "topic_guards (entry 1).naming: '[' is not valid in RE2"),
    ("naming: '(?=a)'", "RE2 has no look-around"),
    ("partitions: {min: 5, max: 3}", "no value is from 5 to 3: write min below max"),
    ("partitions: {min: 0}", "write 1 or more"),
    ("partitions: 3", "topic_guards (entry 1).partitions: must be a mapping"),
    ("replication_factor: {min: '3'}", "write a whole number"),
    ("configs: {retention.ms: {min: 5, max: 3}}", "no value is from 5 to 3: write min below max"),
    ("configs: {retention.ms: {max: 1h}}", "write a whole number"),
    ("configs: {retention.ms: {max: 1, values: [a]}}", "values and min or max exclude each other"),
    ("configs: {retention.ms: {values: []}}", "write at least 1"),
    ("configs: {retention.ms: {value: [a]}}", "is not a setting"),
    ("configs: {'': {}}", "is no config: write its name"),
    ("topics: []", "write at least 1"),
    ("topics: ['a b']", "no topic can match 'a b'"),
    ("principals: [alice]", "did you mean 'User:alice'?"),
    ("mode: off", "write 'enforce' or 'shadow'"),
    ("create: no", "write 'allow' or 'deny'"),
    ("topic: [a]", "is not a setting; did you mean topics?"),
]


@pytest.mark.parametrize(("entry", "expected"), WRONG, ids=[entry for entry, _ in WRONG])
def test_a_wrong_entry_is_one_line_with_its_place_and_remedy(entry: str, expected: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as error:
        read(f"[{{{entry}}}]", tmp_path)
    (line,) = error.value.lines
    assert expected in line
    assert "sidecar.yaml:" in line


def read(entries: str, tmp_path: Path) -> Any:
    path = tmp_path / "sidecar.yaml"
    path.write_text(f"bootstrap_servers: a:1\ntopic_guards: {entries}\n")
    config = load_config(path, {}, {}, find_mistakes)
    if mistakes := list(find_mistakes(config)):
        raise config.error(mistakes)
    return config


def test_an_entry_that_can_never_apply_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="never applies: entry 1 matches all of its topics and principals first"):
        read("[{delete: deny}, {topics: [a], create: deny}]", tmp_path)
    read("[{principals: ['User:a'], delete: deny}, {topics: [a], create: deny}, {topics: [a*]}]", tmp_path)


def test_values_are_written_as_yaml_has_them(tmp_path: Path) -> None:
    (entry,) = read("[{configs: {a: {values: [2, true, 'x']}}}]", tmp_path).topic_guards
    assert entry.configs["a"].values == ["2", "true", "x"]
