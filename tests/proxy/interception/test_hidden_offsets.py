"""How far a consumer has come in what is hidden from it."""

from __future__ import annotations

import pytest

from kafka_sidecar.proxy.interception import hidden_offsets as progress_module
from kafka_sidecar.proxy.interception.hidden_offsets import At, Progress


def at(offset: int, client_id: str | None = "app", principal: str | None = None, isolation: int = 0) -> At:
    return At(client_id, principal, isolation, "orders", 0, offset)


def test_nothing_hidden_means_reading_where_the_client_asks() -> None:
    assert Progress().next(at(5)) == 5


def test_behind_what_is_hidden_reading_goes_on_and_never_goes_back() -> None:
    progress = Progress()
    for following, known in ((10, 10), (8, 10), (20, 20)):
        progress.hidden(at(5), following)
        assert progress.next(at(5)) == known
    assert progress.next(at(6)) == 6


def test_what_is_hidden_from_one_client_is_not_hidden_from_another() -> None:
    progress = Progress()
    progress.hidden(at(5), 10)
    assert progress.next(at(5, client_id="other")) == 5
    assert progress.next(at(5, principal="User:alice")) == 5
    assert progress.next(at(5, isolation=1)) == 5


def test_what_is_forgotten_begins_anew() -> None:
    progress = Progress()
    progress.hidden(at(5), 10)
    progress.forget(at(5))
    progress.forget(at(6))
    assert progress.next(at(5)) == 5


def test_of_a_topic_that_is_another_now_all_is_forgotten() -> None:
    progress = Progress()
    for topic_id, knows in ((b"1", False), (b"1", True), (b"2", False), (b"2", True)):
        progress.hidden(at(5), 10)
        progress.hidden(at(5)._replace(topic="other"), 10)
        assert progress.is_still("orders", topic_id) is knows
        assert progress.next(at(5)) == (10 if knows else 5)
        assert progress.next(at(5)._replace(topic="other")) == 10


def test_of_very_many_those_are_kept_that_were_used_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_module, "MOST_KEPT", 3)
    progress = Progress()
    for offset in (1, 2, 3):
        progress.hidden(at(offset), 100)
    progress.next(at(1))
    progress.hidden(at(4), 100)
    assert [progress.next(at(offset)) for offset in (1, 2, 3, 4)] == [100, 2, 100, 100]
