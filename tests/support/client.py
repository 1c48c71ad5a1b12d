"""The client of a request that no session has read."""

from __future__ import annotations

from dataclasses import dataclass, field

from kafka_sidecar.proxy.relay.exchange import Client, Exchange, Passes


@dataclass
class Somebody(Client):
    number: int = 7
    client_id: str | None = "app"
    client_software: str | None = "apache-kafka-java 4.3.1"
    principal: str | None = None
    notes: dict[str, object] = field(default_factory=dict)


SOMEBODY = Somebody()


def in_hand(begun: Exchange | Passes | None) -> Exchange | None:
    """Who has a request in hand."""
    return None if isinstance(begun, Passes) else begun
