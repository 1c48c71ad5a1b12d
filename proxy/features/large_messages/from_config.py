"""From the section ``large_messages`` of the configuration to the settings of topics, plug-ins loaded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from kafka_sidecar.codec.topic_names import is_topic_name
from kafka_sidecar.large_messages.serializers import DESERIALIZERS, SERIALIZERS, SegmentSerializer
from kafka_sidecar.large_messages.settings import TopicSettings
from kafka_sidecar.plugins.bounded import Bounded
from kafka_sidecar.plugins.patterns import first_matcher
from kafka_sidecar.proxy.config.large_messages import LargeTopic
from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.config.mistakes import Mistake, explain_plugin
from kafka_sidecar.proxy.features.large_messages.object_store import check_store

MAX_CACHED_TOPICS = 10_000  # clients choose the names


class Topics:
    """The settings of each topic, by the entry that matches its name first."""

    def __init__(self, entries: tuple[tuple[str, TopicSettings | None], ...] = ()) -> None:
        self._entries = entries
        self._first = first_matcher([name] for name, _ in entries)
        self._found = Bounded[str, TopicSettings | None](MAX_CACHED_TOPICS)
        self.store_offsets = any(one is not None and one.offsets != "plain" for _, one in entries)
        self.store_objects = any(one is not None and one.store == "object" for _, one in entries)
        self.deliver_headers = any(one is not None and one.deliver_headers for _, one in entries)

    @property
    def are_enabled(self) -> bool:
        """Whether any topic may have large messages."""
        return any(settings is not None for _, settings in self._entries)

    def find(self, topic: str) -> TopicSettings | None:
        """The topic's settings; None: its messages are relayed as they are."""
        try:
            return self._found[topic]
        except KeyError:
            pass
        if not is_topic_name(topic):
            return None  # brokers reject it
        at = self._first(topic)
        found = self._found[topic] = self._entries[at][1] if at is not None else None
        return found


def topics(config: Config) -> Topics:
    """The topics of a configuration.

    Raises:
        ValueError: a serializer or deserializer cannot be loaded; one line.
    """
    return Topics(tuple((one.name, _settings(one)) for one in config.large_messages.topics))


def opens_others(config: Config) -> bool:
    """Whether an object store, or serializers that are no part of the sidecar, have to be opened."""
    section = config.large_messages
    named = {name for one in section.topics for name in (one.segment_serializer, one.segment_deserializer)}
    return section.object_store is not None or not named <= {None, "default"}


def find_mistakes(config: Config) -> Iterator[Mistake]:
    """What is wrong with serializers, deserializers and the object store."""
    section = config.large_messages
    if section.object_store is not None:
        try:
            check_store(section.object_store, section.object_store_options)
        except ValueError as error:
            yield Mistake(("large_messages", "object_store"), str(error).removeprefix("large_messages.object_store: "))
    for index, one in enumerate(config.large_messages.topics):
        try:
            _settings(one)
        except ValueError as error:
            at = "large_messages", "topics", index
            for noun in (SERIALIZERS.noun, DESERIALIZERS.noun):
                if str(error).startswith(f"{noun} {one.name}"):
                    yield from explain_plugin(error, f"{noun} {one.name}", at)


def _settings(one: LargeTopic) -> TopicSettings | None:
    if not one.enabled:
        return None
    deserializer, _ = DESERIALIZERS.open(
        one.name, one.segment_deserializer, _class_path(one, one.segment_deserializer), one.segment_settings
    )
    plug_ins: dict[str, Any] = {"serializer": _serializer(one), "deserializer": deserializer}
    same = {field.name: getattr(one, field.name) for field in fields(TopicSettings) if field.name not in plug_ins}
    return TopicSettings(**same, **plug_ins)


def _serializer(one: LargeTopic) -> SegmentSerializer | None:
    type_ = one.segment_serializer or ("default" if one.segment_format == "payload" else None)
    if type_ is None:
        return None
    serializer, _ = SERIALIZERS.open(one.name, type_, _class_path(one, type_), one.segment_settings)
    return serializer


def _class_path(one: LargeTopic, type_: str) -> str | None:
    """Only of classes that are named: the built-in ones are not on it."""
    return one.class_path if ":" in type_ or "." in type_ else None
