"""What a running sidecar gives to the stages of interception."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from typing import Protocol

from kafka_sidecar.interceptors.contract import UNKNOWN, Context
from kafka_sidecar.plugins.effects import TimeLimit
from kafka_sidecar.proxy.exchanges.contexts import client_context
from kafka_sidecar.proxy.exchanges.held_clients import HiddenOffsets, shows_markers
from kafka_sidecar.proxy.exchanges.limits import DEFAULT_LIMITS
from kafka_sidecar.proxy.relay.exchange import Client


class Report(Protocol):
    """Counts and logs what becomes of batches."""

    batches: Counter[tuple[str, str]]  # by API and what became of them

    def skipped(self, api: str, reason: str, topic: str) -> None:
        """A batch that should have been intercepted passes as it is, or is withheld with all that follows."""

    def hidden(self, api: str, reason: str, topic: str) -> None:
        """A batch that could not be intercepted is dropped."""


@dataclass(frozen=True, slots=True)
class Services:
    name_of: Callable[[bytes], str | None]  # a topic's by its id, where it is known
    stats: Report
    clock: Callable[[], int]  # ms since 1970
    stopwatch: Callable[[], float]  # seconds of a clock that is never set
    limit: int  # bytes that a batch may have when it is inflated
    message_max_bytes: int  # that a batch may grow to
    hold_for: tuple[str, ...] = ()  # client ids of clients that would show control batches
    hides_unreadable: bool = True  # batches that cannot be intercepted are dropped, where something is hidden
    max_records: int = DEFAULT_LIMITS.max_records  # that a fetched batch may have to be intercepted
    hidden_offsets: HiddenOffsets = field(default_factory=HiddenOffsets)
    time_limit: TimeLimit = field(default_factory=lambda: TimeLimit("interception", inf, inf))  # of a request

    def context(self, client: Client, version: int, generation_id: int = UNKNOWN, **of_request: str | None) -> Context:
        """Whose request it is."""
        return client_context(self.clock, client, version, generation_id, **of_request)

    def holds(self, client: Client, version: int) -> bool:
        """Whether a client would show a control batch to its application, so that it must not get ours."""
        return shows_markers(client, version, self.hold_for)
