"""What is known of one connection: who the client is, and from where its fetch session reads."""

from __future__ import annotations

import pytest
from support.client import FakeClient
from support.dialogue import Dialogue
from support.fetches import fetch_request

from kafka_sidecar.codec.fetch_positions import UNKNOWN, FetchPositions
from kafka_sidecar.proxy.features.auditing import connection as module
from kafka_sidecar.proxy.features.auditing.connection import AuditedConnection, connection_of


def positions(offsets: dict[int, int], epoch: int, session: int = 0) -> FetchPositions:
    frame = fetch_request(12, {"orders": offsets}, epoch=epoch, session=session)
    found = FetchPositions(12)
    found.read(frame, 0, len(frame))
    return found


def read_from(state: AuditedConnection, asked: FetchPositions) -> list[int]:
    """From where the first four partitions are read."""
    offsets = state.offsets_of(asked)
    return [offsets.get("orders", index) for index in range(4)]


@pytest.fixture
def state() -> AuditedConnection:
    return connection_of(FakeClient(), None)


def test_a_client_is_the_same_until_its_name_or_principal_changes() -> None:
    client = Dialogue().session
    client.client_id, client.host = "app", "10.0.0.1"
    first = connection_of(client, client.tap_state)
    assert (first.audited.client_id, first.audited.principal, first.audited.host) == ("app", None, "10.0.0.1")
    client.client_id, client.principal = "app", None
    assert connection_of(client, client.tap_state) is first
    client.principal = "User:alice"
    assert connection_of(client, client.tap_state).audited.principal == "User:alice"
    client.client_id = "other"
    assert connection_of(client, client.tap_state).audited.client_id == "other"


def test_without_a_session_only_what_is_named_is_read(state: AuditedConnection) -> None:
    state.offsets_of(positions({0: 5}, epoch=0))
    assert read_from(state, positions({1: 7}, epoch=-1)) == [UNKNOWN, 7, UNKNOWN, UNKNOWN]


def test_a_session_of_another_connection_is_not_mistaken_for_this_one(state: AuditedConnection) -> None:
    state.offsets_of(positions({0: 5}, epoch=0))
    state.session_id = 77
    assert read_from(state, positions({1: 6}, epoch=1, session=77)) == [5, 6, UNKNOWN, UNKNOWN]
    assert read_from(state, positions({2: 8}, epoch=9, session=78)) == [UNKNOWN, UNKNOWN, 8, UNKNOWN]


def test_partitions_that_are_forgotten_leave_the_session(state: AuditedConnection) -> None:
    state.offsets_of(positions({0: 5, 1: 6}, epoch=0))
    continued = positions({}, epoch=1)
    continued.forgotten.append(("orders", 0))
    assert read_from(state, continued) == [UNKNOWN, 6, UNKNOWN, UNKNOWN]


def test_a_bounded_number_of_partitions_is_remembered(
    state: AuditedConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_SESSION_PARTITIONS", 2)
    assert read_from(state, positions({0: 1, 1: 1, 2: 1}, epoch=0)) == [1, 1, 1, UNKNOWN]
    assert read_from(state, positions({3: 1}, epoch=1)) == [UNKNOWN, UNKNOWN, UNKNOWN, 1]
