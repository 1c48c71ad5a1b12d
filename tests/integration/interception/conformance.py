"""The same application twice: with Java's interceptors at the broker, and without any through a sidecar that has ours.

Two transcripts have the calls of the interceptors and the results of the application. They are made
comparable only in what a proxy sees otherwise; docs/reference/interceptors.md names all of that.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Message, TopicPartition
from harness.cluster import Cluster
from harness.sidecar import Sidecar
from harness.tool_host import ToolHost
from integration.scenarios.target import LIMIT_S, SILENT, create_topic, eventually, headers_of

CHAIN = ("first", "second", "third")
WAYS = DIRECT, THROUGH = ("direct", "through")
CLIENT = "InterceptedClient"  # tests/jvm/java
NOW = 10**12  # ms: application's times are made up and smaller
HALF = ["half", "done"]  # the header that the second one adds before it fails

Event = dict[str, Any]


def configuration(transcript: Path) -> str:
    """A configuration file with the chain."""
    entry = "  - {{type: 'conformance_interceptors:{}', name: {}, class_path: '{}', max_failures: 0, file: '{}'}}\n"
    folder = Path(__file__).parent
    return "interceptors:\n" + "".join(entry.format(one.title(), one, folder, transcript) for one in CHAIN)


@dataclass(frozen=True, slots=True)
class Transcripts:
    """What happened in one scenario, both ways."""

    java: list[Event]
    ours: list[Event]

    def each(self, hook: str) -> tuple[list[Event], list[Event]]:
        """The calls of a hook, Java's and ours."""
        return tuple([event for event in events if event["hook"] == hook] for events in (self.java, self.ours))  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class Stage:
    cluster: Cluster
    sidecar: Sidecar
    host: ToolHost
    folder: Path  # of the transcripts

    @property
    def transcript(self) -> Path:
        """Where the sidecar's interceptors write."""
        return self.folder / f"{THROUGH}.jsonl"

    def topics(self, name: str, suffix: str, partitions: int = 1, **config: str) -> list[str]:
        """Creates one for each way, past the sidecar."""
        settings = {key.replace("_", "."): value for key, value in config.items()}
        names = [f"{way}.{name}.{suffix}" for way in WAYS]
        for topic in names:
            create_topic(self.cluster.direct, topic, partitions, settings)
        return names

    def run(self, scenario: str, name: str | None = None, *settings: str) -> Transcripts:
        """Runs a scenario of the Java application both ways; ``name`` is part of the names of its topics."""
        name = name or scenario
        own = self.folder / f"{name}.jsonl"
        at = {DIRECT: (self.cluster.direct, own, "own"), THROUGH: (self.sidecar.bootstrap, self.transcript, "none")}
        for way, (bootstrap, transcript, interceptors) in at.items():
            self.host.run(CLIENT, scenario, bootstrap, f"{way}.{name}.", transcript, interceptors, *settings)
        return Transcripts(read(own, f"{DIRECT}.{name}."), self.seen(name))

    def seen(self, name: str) -> list[Event]:
        """What has happened by now through the sidecar."""
        return read(self.transcript, f"{THROUGH}.{name}.", only_its=True)


def read(transcript: Path, prefix: str, only_its: bool = False) -> list[Event]:
    """The events of a file; names of topics lose the prefix.

    Args:
        only_its: leave out events that have nothing to do with topics of the prefix.
    """
    lines = transcript.read_text(encoding="utf-8").splitlines()
    return [_timeless(json.loads(line.replace(prefix, ""))) for line in lines if prefix in line or not only_its]


def _timeless(event: Event) -> Event:
    """Times that a clock gave differ from run to run."""
    for one in (event, *event.get("records", ())):
        if one.get("timestamp") is not None and one["timestamp"] > NOW:
            one["timestamp"] = "now"
    return event


def by_place(events: Iterable[Event]) -> list[Event]:
    """By topic and partition, in each as they came: a request holds the batches of several partitions in any order."""
    return sorted(events, key=lambda event: (event["topic"], event["partition"]))


def without_half(events: Sequence[Event]) -> list[Event]:
    """Java keeps what an interceptor changed in place before it failed; here that is undone."""
    return [
        {**event, "headers": [header for header in event["headers"] if header != HALF]}
        if "headers" in event else event for event in events
    ]  # fmt: skip


def flattened(events: Iterable[Event]) -> dict[str, list[Event]]:
    """By who was called: the records of all calls. A poll of Java's brings several batches; here each is a call."""
    found: dict[str, list[Event]] = {}
    for event in events:
        found.setdefault(event["who"], []).extend(event["records"])
    return {who: sorted(records, key=lambda one: (one["partition"], one["offset"])) for who, records in found.items()}


def rounds(events: Iterable[Event]) -> list[list[str]]:
    """Who was called, from each call of the first one to the next."""
    found: list[list[str]] = []
    for event in events:
        if event["who"] == CHAIN[0]:
            found.append([])
        found[-1].append(event["who"])
    return found


def stored(bootstrap: str, topic: str) -> list[Mapping[str, Any]]:
    """What is in partition 0 of a topic."""
    consumer = Consumer({
        "bootstrap.servers": bootstrap, "group.id": "checks", "logger": SILENT, "enable.partition.eof": True,
        "enable.auto.commit": False, "check.crcs": True,
    })  # fmt: skip
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[Message] = []

    def is_read() -> bool:
        messages = consumer.consume(1000, timeout=0.05)
        found.extend(message for message in messages if not message.error())
        return any(message.error() for message in messages)

    try:
        eventually(is_read, bool, f"the end of {topic}", LIMIT_S)
    finally:
        consumer.close()
    return [
        {
            "offset": one.offset(), "timestamp": one.timestamp(), "key": one.key(), "value": one.value(),
            "headers": [[key, value] for key, value in headers_of(one)],
        } for one in found
    ]  # fmt: skip
