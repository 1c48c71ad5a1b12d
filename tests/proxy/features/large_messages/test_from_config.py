"""The section ``large_messages``: names of li, entries by topic, plug-ins, and mistakes in one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.in_process import config

from kafka_sidecar.codec.wire import NO_ID
from kafka_sidecar.large_messages.segment import Segment
from kafka_sidecar.large_messages.serializers import (
    DefaultSegmentDeserializer,
    DefaultSegmentSerializer,
)
from kafka_sidecar.large_messages.settings import TopicSettings
from kafka_sidecar.proxy.config.loading import load
from kafka_sidecar.proxy.config.mistakes import ConfigError
from kafka_sidecar.proxy.features.compose import find_mistakes as of_features
from kafka_sidecar.proxy.features.feature import NO_STAGES
from kafka_sidecar.proxy.features.large_messages.from_config import MAX_CACHED_TOPICS, topics
from kafka_sidecar.proxy.features.large_messages.large_messages import LargeMessages
from kafka_sidecar.proxy.features.large_messages.split_stage import SplitStage

LI = {
    "large.message.enabled": True,
    "max.message.segment.bytes": 800_000,
    "segment.serializer": "default",
    "segment.deserializer.class": "default",
    "message.assembler.expiration.offset.gap": 7,
    "max.tracked.messages.per.partition": 8,
    "exception.on.message.dropped": True,
    "li.record.header.enable": False,
    "header.timestamp.enabled": True,
}


def found(entries: list[dict[str, Any]], topic: str = "orders", **section: Any) -> TopicSettings | None:
    return topics(config("a:1", large_messages={"topics": entries, **section})).find(topic)


def test_the_defaults_of_the_file_are_those_of_the_library() -> None:
    settings = found([{"name": "*"}])
    assert settings is not None
    assert isinstance(settings.deserializer, DefaultSegmentDeserializer)
    assert settings == TopicSettings(deserializer=settings.deserializer)


def test_the_settings_of_li_have_the_names_of_li() -> None:
    section = config("a:1", large_messages={"topics": [{"name": "*", **LI}], "message.assembler.buffer.capacity": 9})
    assert section.large_messages.cache == 9
    settings = topics(section).find("orders")
    assert settings is not None
    assert isinstance(settings.serializer, DefaultSegmentSerializer)
    assert (settings.segment, settings.look_back, settings.max_tracked) == (800_000, 7, 8)
    assert (settings.on_missing, settings.segment_format, settings.timestamp_header) == ("fail", "payload", True)


def test_the_first_entry_that_matches_applies() -> None:
    entries: list[dict[str, Any]] = [
        {"name": "orders.small", "large.message.enabled": False},
        {"name": "orders*", "on_missing": "fail"},
        {"name": "*.small"},
    ]
    assert found(entries, "orders.small") is None
    assert found(entries, "other") is None
    (of_orders, of_others) = found(entries, "orders"), found(entries, "x.small")
    assert of_orders is not None
    assert of_others is not None
    assert (of_orders.on_missing, of_others.on_missing) == ("fail", "drop")


def test_topics_that_clients_name_do_not_fill_the_memory() -> None:
    many = topics(config("a:1", large_messages={"topics": [{"name": "orders"}]}))
    for number in range(MAX_CACHED_TOPICS + 1):
        assert many.find(f"t{number}") is None
    assert many.find("orders") is not None
    of_any = topics(config("a:1", large_messages={"topics": [{"name": "*"}]}))
    assert of_any.find("o" * 250) is None
    assert not of_any._found


def test_the_payload_format_has_its_serializer() -> None:
    settings = found([{"name": "*", "segment_format": "payload"}])
    assert settings is not None
    assert isinstance(settings.serializer, DefaultSegmentSerializer)


def test_serializers_are_found_by_their_class() -> None:
    name = "support.segment_plugins"
    settings = found([{"name": "*", "segment_serializer": f"{name}:Upper", "segment_deserializer": f"{name}:Never"}])
    assert settings is not None
    assert settings.serializer is not None
    assert settings.serializer.serialize("orders", Segment(bytes(16), 0, 2, 6, b"abc")) == b"ABC"
    assert settings.deserializer.deserialize("orders", b"abc") is None


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ("{}", "large_messages.topics (entry 1).name: is missing"),
        ("{name: a, max_message: 96000000}", "lower it to 95000000, or set above_client_limits: true"),
        ("{name: a, segment: 10}", "large_messages.topics (entry 1).segment: write 1024 or more"),
        ("{name: a, large.message.enabled: true, enabled: true}", "large.message.enabled is the same setting as enabl"),
        ("{name: a, exception.on.message.dropped: 3}", "write 'drop' or 'fail'"),
        ("{name: a, segment.serializer: x}", "unknown segment serializer 'x': set its type to module:Class, or to"),
        ("{name: a, segment.deserializer.class: 'os:path'}", "is not a subclass of"),
        (
            "{name: a, max_message: 1GiB, above_client_limits: true}",
            "connections.max_frame 104857600 has no room for a",
        ),
        ("{name: a, on_mising: drop}", "is not a setting; did you mean on_missing?"),
    ],
)
def test_a_mistake_is_one_line_with_the_remedy(tmp_path: Path, entry: str, problem: str) -> None:
    path = tmp_path / "sidecar.yaml"
    path.write_text(f"bootstrap_servers: a:1\nlarge_messages:\n  topics:\n  - {entry}")
    with pytest.raises(ConfigError) as raised:
        config_of(path)
    (line,) = str(raised.value).splitlines()
    assert problem in line


def test_what_is_wrong_with_the_serializers_of_all_entries_is_found_at_once(tmp_path: Path) -> None:
    path = tmp_path / "sidecar.yaml"
    path.write_text(
        "bootstrap_servers: a:1\nlarge_messages:\n  topics:\n  - {name: a, segment.serializer: x}\n  - {name: b}\n"
        "  - {name: c, enabled: false, segment.serializer: x}\n  - {name: d, segment.deserializer.class: 'os:path'}\n"
    )
    found = list(of_features(load(path, {}, {})))
    assert [one.location for one in found] == [("large_messages", "topics", 0), ("large_messages", "topics", 3)]
    assert found[0].text.startswith("unknown segment serializer 'x': set its type to module:Class")
    assert "is not a subclass of" in found[1].text


STORE = "bootstrap_servers: a:1\nlarge_messages:\n  topics: [{name: a, store: object}]\n"


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ("object_store: 'gopher://x'", "gopher"),
        ("object_store: 's3://bucket'\n  object_store_options: {nonsense: x}", "nonsense"),
        ("object_store: 'file://{0}/file/objects'", "/file/objects cannot be made or written to: see "),
        ("object_store: 's3://bucket'\n  object_store_options: {region: eu-west-1}", None),
        ("object_store: 'file://{0}/new/objects'", None),
        ("object_store: 'memory://'", None),
    ],
)
def test_an_object_store_that_cannot_be_opened_is_a_mistake_and_nothing_is_made(
    settings: str, problem: str | None, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    path = tmp_path / "sidecar.yaml"
    path.write_text(f"{STORE}  {settings.format(tmp_path) if '{0}' in settings else settings}\n")
    found = list(of_features(load(path, {}, {})))
    assert [one.location for one in found] == ([("large_messages", "object_store")] if problem else [])
    assert all(problem in one.text for one in found if problem)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["file", "sidecar.yaml"]


def config_of(path: Path) -> None:
    LargeMessages(lambda topic_id: None, lambda name: NO_ID).load(load(path, {}, {}, of_features))()


def test_a_message_may_be_larger_than_clients_accept_if_the_file_says_so() -> None:
    entries = [{"name": "*", "max_message": "1GiB", "above_client_limits": True}]
    configured = config("a:1", large_messages={"topics": entries}, connections={"max_frame": "1025MiB"})
    settings = topics(configured).find("orders")
    assert settings is not None
    assert settings.max_message == 1 << 30


def test_a_configuration_applies_once_it_is_used() -> None:
    large = LargeMessages(lambda topic_id: None, lambda name: NO_ID)
    use = large.load(config("a:1", large_messages={"topics": [{"name": "orders"}]}))
    assert large.topics.find("orders") is None
    assert large.stages() is NO_STAGES
    use()
    assert [type(stage) for stage in large.stages().produce] == [SplitStage]
    assert large.topics.find("orders") is not None
