"""When the peers of a connection last sent something."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from kafka_sidecar.proxy.runtime.activity import Activity


@dataclass
class Counts:
    bytes_from_client: int = 0
    bytes_from_broker: int = 0
    flow: Any = field(default_factory=lambda: SimpleNamespace(client_progress=0))
    client_is_paused: bool = False
    broker_is_paused: bool = False


def test_a_connection_is_quiet_from_its_start_until_a_byte_is_counted() -> None:
    counts, activity = Counts(), Activity(100.0)
    assert activity.quiet_s(counts, 107.0) == 7.0
    counts.bytes_from_broker = 1
    assert activity.quiet_s(counts, 108.0) == 0.0
    assert activity.quiet_s(counts, 110.0) == 2.0
    assert (activity.client_at, activity.broker_at) == (100.0, 108.0)


def test_a_peer_that_is_not_read_has_its_time_but_the_connection_is_quiet() -> None:
    counts, activity = Counts(client_is_paused=True), Activity(0.0)
    assert activity.quiet_s(counts, 50.0) == 50.0
    assert (activity.client_at, activity.broker_at) == (50.0, 0.0)
    counts.client_is_paused, counts.broker_is_paused = False, True
    assert activity.quiet_s(counts, 60.0) == 60.0
    assert (activity.client_at, activity.broker_at) == (50.0, 60.0)


def test_a_connection_is_not_quiet_while_its_client_reads() -> None:
    counts, activity = Counts(flow=SimpleNamespace(client_progress=-1000)), Activity(0.0)
    assert activity.quiet_s(counts, 1.0) == 0.0
    counts.flow.client_progress = -900
    assert activity.quiet_s(counts, 50.0) == 0.0
    assert activity.quiet_s(counts, 60.0) == 10.0
    assert (activity.client_at, activity.broker_at) == (0.0, 0.0)
