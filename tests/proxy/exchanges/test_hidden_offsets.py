"""Where a consumer goes on reading after hidden records."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest
from support.client import FakeClient
from support.fetches import fetch_request

from kafka_sidecar.plugins.effects import TURN
from kafka_sidecar.proxy.exchanges import held_clients as module
from kafka_sidecar.proxy.exchanges.fetch import FetchedPartition
from kafka_sidecar.proxy.exchanges.held_clients import FetchPosition, HeldFetch, HiddenOffsets


def at(offset: int, client_id: str | None = "app", principal: str | None = None, isolation: int = 0) -> FetchPosition:
    return FetchPosition(client_id, principal, isolation, "orders", 0, offset)


def test_where_nothing_is_hidden_the_offset_of_the_client_is_read() -> None:
    assert HiddenOffsets().next(at(5)) == 5


def test_after_hidden_records_reading_goes_on_and_never_goes_back() -> None:
    offsets = HiddenOffsets()
    for following, known in ((10, 10), (8, 10), (20, 20)):
        offsets.hide(at(5), following)
        assert offsets.next(at(5)) == known
    assert offsets.next(at(6)) == 6


def test_what_is_hidden_from_one_client_is_not_hidden_from_another() -> None:
    offsets = HiddenOffsets()
    offsets.hide(at(5), 10)
    assert offsets.next(at(5, client_id="other")) == 5
    assert offsets.next(at(5, principal="User:alice")) == 5
    assert offsets.next(at(5, isolation=1)) == 5


def test_a_forgotten_position_is_read_from_the_clients_offset_again() -> None:
    offsets = HiddenOffsets()
    offsets.hide(at(5), 10)
    offsets.forget(at(5))
    offsets.forget(at(6))
    assert offsets.next(at(5)) == 5


def test_everything_known_of_a_recreated_topic_is_forgotten() -> None:
    offsets = HiddenOffsets()
    for topic_id, knows in ((b"1", False), (b"1", True), (b"2", False), (b"2", True)):
        offsets.hide(at(5), 10)
        offsets.hide(at(5)._replace(topic="other"), 10)
        assert offsets.is_current("orders", topic_id) is knows
        assert offsets.next(at(5)) == (10 if knows else 5)
        assert offsets.next(at(5)._replace(topic="other")) == 10


def test_over_the_limit_the_least_recently_used_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_KEPT", 3)
    offsets = HiddenOffsets()
    for offset in (1, 2, 3):
        offsets.hide(at(offset), 100)
    offsets.next(at(1))
    offsets.hide(at(4), 100)
    assert [offsets.next(at(offset)) for offset in (1, 2, 3, 4)] == [100, 2, 100, 100]


class Noted(HiddenOffsets):
    """The positions that are kept."""

    def __init__(self) -> None:
        super().__init__()
        self.positions: list[FetchPosition] = []

    def hide(self, position: FetchPosition, following: int) -> None:
        self.positions.append(position)


def test_of_long_names_of_clients_their_hashes_are_kept() -> None:
    noted, frame = Noted(), fetch_request(4, {"orders": {0: 5}})
    clients = [FakeClient(client_id=name, principal=name) for name in ("x" * 32_000, "x" * 31_999, "app")]
    for client in clients:
        held = HeldFetch(client, 4, 0, lambda topic_id: None, noted)
        steps = held.skip_hidden(frame)
        assert list(steps) == [TURN]
        held.hide(cast(FetchedPartition, SimpleNamespace(topic="orders", index=0)), 10)
    one, other, short = noted.positions
    assert one != other
    assert (short.client_id, short.principal) == ("app", "app")
    assert all(len(f"{each.client_id}{each.principal}") < 250 for each in noted.positions)
