"""The client of a request that no session has read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from kafka_sidecar.proxy.relay.exchange import Client, Exchange, FetchSession, Gate, Look, Pass
from kafka_sidecar.proxy.relay.memory_budget import Account, MemoryBudget
from kafka_sidecar.proxy.telemetry.metrics import Buffered


@dataclass(eq=False)
class FakeClient(Client):
    """Keeps its `tap_state` where its identity changes, unlike a session."""

    number: int = 7
    client_id: str | None = "app"
    client_software: str | None = "apache-kafka-java 4.3.1"
    principal: str | None = None
    login: object | None = None
    opened: object | None = None
    host: str | None = None
    tap_state: object | None = None
    fetch_state: object | None = None
    account: Account = field(default_factory=lambda: Account(MemoryBudget(1 << 40, Buffered())))
    fetch_session: FetchSession | None = None
    reports_running: int = 0
    has_closed: bool = False
    limited: object | None = None
    muted_until: float = 0.0
    gates: Sequence[Gate] = ()

    def mute(self, until: float, why: str) -> None:
        self.muted_until = max(until, self.muted_until)


FAKE_CLIENT = FakeClient()


def exchange_of(begun: Exchange | Look | Pass | None) -> Exchange | None:
    """What looks into a request."""
    if isinstance(begun, Look):
        return begun.start()
    return None if isinstance(begun, Pass) else begun
