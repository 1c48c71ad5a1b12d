"""What a running sidecar provides to the stages of large messages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from math import inf
from typing import Protocol

from kafka_sidecar.codec.wire import NO_ID
from kafka_sidecar.large_messages.settings import TopicSettings
from kafka_sidecar.proxy.exchanges.limits import DEFAULT_LIMITS
from kafka_sidecar.proxy.features.large_messages.topic_limits import TopicLimits
from kafka_sidecar.proxy.relay.exchange import Client, TimeLimit


class Report(Protocol):
    """Counts and logs what becomes of large messages that are produced."""

    def was_split(self, messages: int, slices: int, size: int) -> None:
        """Slices of a batch are stored: of how many messages, how many, their bytes."""

    def refused(self, topic: str, reason: str, detail: str) -> None:
        """A batch is rejected."""

    def put_objects(self, objects: int, size: int) -> None:
        """Values are stored as objects: how many, their bytes."""

    def orphaned(self, slices: int) -> None:
        """Slices are stored for a batch that is not."""


@dataclass(frozen=True, slots=True)
class Services:
    settings_of: Callable[[str], TopicSettings | None]
    report: Report
    topic_limits: TopicLimits
    random: Callable[[int], bytes]
    id_of: Callable[[str], bytes] = lambda name: NO_ID  # a topic's by its name, zeros if it is not known
    max_inflated: int = 100 << 20  # bytes that a batch may have when it is inflated
    max_records: int = DEFAULT_LIMITS.max_records
    li_clients: tuple[str, ...] = ()  # client ids of clients that split and assemble themselves
    time_limit: TimeLimit = field(default_factory=lambda: TimeLimit("large_messages", inf, inf))  # of a request

    def is_li(self, client: Client) -> bool:
        """Whether the client splits and assembles itself."""
        return any(fnmatchcase(client.client_id or "", pattern) for pattern in self.li_clients)
