"""What the taps know of one connection."""

from __future__ import annotations

from kafka_sidecar.audit.contract import AuditedClient
from kafka_sidecar.codec.fetch_counts import FetchPositions, Partition
from kafka_sidecar.proxy.relay.exchange import Client

MAX_SESSION_PARTITIONS = 100_000
NO_SESSION, NEW_SESSION = -1, 0  # epochs (KIP-227)


class TappedClient:
    """A connection's client, as auditors are shown it, and its fetch session."""

    __slots__ = ("_offsets", "audited", "session_id")

    def __init__(self, audited: AuditedClient) -> None:
        self.audited = audited
        self.session_id = 0  # 0: there is none
        self._offsets: dict[Partition, int] = {}  # that the session's requests have asked for

    def offsets_of(self, positions: FetchPositions) -> dict[Partition, int]:
        """The offsets that a Fetch reads from: a request that continues a session names only those that have changed.

        Of a session that has begun on another connection, only those are known.
        """
        epoch, named = positions.session_epoch, positions.offsets
        if epoch == NO_SESSION:
            return named
        if epoch == NEW_SESSION or positions.session_id != self.session_id:
            self._offsets = {}
            self.session_id = positions.session_id
        offsets = self._offsets
        offsets.update(named)
        for partition in positions.forgotten:
            offsets.pop(partition, None)
        if len(offsets) > MAX_SESSION_PARTITIONS:
            self._offsets = {}
        return offsets


def tapped(client: Client) -> TappedClient:
    """What is known of a connection; it is new where client id or principal have changed."""
    state = client.tap_state
    if isinstance(state, TappedClient):
        audited = state.audited
        if audited.client_id == client.client_id and audited.principal == client.principal:
            return state
    state = client.tap_state = TappedClient(AuditedClient(client.client_id, client.principal, client.host))
    return state
