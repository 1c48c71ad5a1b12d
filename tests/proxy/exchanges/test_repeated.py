"""What is refused again and again is stored once, within limits, by an id that stays the same."""

from __future__ import annotations

from dataclasses import dataclass

from kafka_sidecar.proxy.exchanges.repeated import MAX_RECENT, Repeated, cut, cut_or_none, with_hint


@dataclass(frozen=True)
class Refused:
    id: str
    since: float
    at: float
    times: int


def store(repeated: Repeated[Refused], *kind: str) -> Refused:
    return repeated.store(kind, lambda since, at, times: Refused(repeated.id_of(*kind), since, at, times))


def test_a_kind_is_stored_once_with_its_first_and_last_time() -> None:
    now = [5.0]
    repeated = Repeated[Refused](lambda: now[0])
    first = store(repeated, "a", "b")
    store(repeated, "ab", "")
    now[0] = 9.0
    again = store(repeated, "a", "b")
    assert (again.id, again.since, again.at, again.times) == (first.id, 5.0, 9.0, 2)
    assert repeated.find(first.id) is again
    assert [one.times for one in repeated.newest()] == [2, 1]
    assert first.id.startswith(f"{repeated.prefix}-")


def test_the_oldest_kinds_go() -> None:
    repeated = Repeated[Refused](lambda: 0.0)
    ids = [store(repeated, str(number)).id for number in range(MAX_RECENT + 1)]
    assert repeated.find(ids[0]) is None
    assert repeated.find(ids[1]) is not None


def test_any_text_has_an_id_and_a_beginning() -> None:
    repeated = Repeated[Refused](lambda: 0.0)
    assert repeated.id_of("\ud800") != repeated.id_of("\ud801")
    assert len(cut("\N{SNOWMAN}" * 1000).encode()) <= 249
    assert cut("short") == "short"
    assert cut_or_none(None) is None
    assert with_hint("why", "f00-1") == "why (kafka-sidecar explain f00-1)"
