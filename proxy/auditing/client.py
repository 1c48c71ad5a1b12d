"""What the taps know of one connection."""

from __future__ import annotations

from kafka_sidecar.audit.contract import AuditedClient
from kafka_sidecar.proxy.relay.exchange import Client


class TappedClient:
    """A connection's client, as auditors are shown it."""

    __slots__ = ("audited",)

    def __init__(self, audited: AuditedClient) -> None:
        self.audited = audited


def tapped(client: Client) -> TappedClient:
    """What is known of a connection; it is new where client id or principal have changed."""
    state = client.tap_state
    if isinstance(state, TappedClient):
        audited = state.audited
        if audited.client_id == client.client_id and audited.principal == client.principal:
            return state
    state = client.tap_state = TappedClient(AuditedClient(client.client_id, client.principal, client.host))
    return state
