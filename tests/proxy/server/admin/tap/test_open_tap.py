"""How many lines a tap is granted, and when they leave."""

from __future__ import annotations

import pytest
from support.taps import Tapped

from kafka_sidecar.proxy.server.admin.tap import open_tap
from kafka_sidecar.proxy.server.admin.tap.open_tap import COUNT_S, FLUSH_S, GRANT_S, MAX_ENCODED


def test_a_second_has_so_many_lines_and_they_come_again() -> None:
    tapped = Tapped("kind=records", rate=100)
    assert [tapped.open.grant(70), tapped.open.grant(70), tapped.open.grant(5)] == [70, 30, 0]
    tapped.now += GRANT_S
    assert tapped.open.grant(70) == 25
    tapped.now += 60
    assert tapped.open.grant(500) == 100
    tapped.flush()
    assert tapped.skipped == 40 + 5 + 45 + 400


def test_what_was_not_used_for_some_seconds_may_come_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_tap, "BURST_S", 3.0)
    tapped = Tapped("kind=records", rate=100)
    assert [tapped.open.grant(250), tapped.open.grant(250)] == [250, 50]


def test_lines_are_granted_for_a_while_at_a_time_and_not_one_by_one() -> None:
    tapped = Tapped("kind=records", rate=100)
    tapped.open.grant(100)
    tapped.now += GRANT_S * 0.9
    assert not tapped.open.has_left
    assert tapped.open.wait_s == pytest.approx(GRANT_S * 0.1)
    tapped.now += GRANT_S * 0.2
    assert tapped.open.has_left
    assert tapped.open.wait_s == 0


def test_no_more_lines_are_encoded_in_a_turn_than_fit_into_one() -> None:
    tapped = Tapped("kind=records", rate=10_000)
    for number in range(MAX_ENCODED + 1):
        tapped.open.add({"number": number})
    tapped.timers.run()
    assert len(tapped.lines) == MAX_ENCODED
    tapped.timers.run()
    assert [line["number"] for line in tapped.lines] == list(range(MAX_ENCODED + 1))


def test_nothing_is_due_while_nothing_happens_and_nothing_is_shown_after_the_end() -> None:
    tapped = Tapped("kind=records")
    assert tapped.timers.due == []
    tapped.open.add({})
    tapped.open.close()
    tapped.open.add({})
    assert (tapped.timers.due, tapped.flush()) == ([], [])


def test_what_is_skipped_alone_leaves_later_than_lines_and_with_the_next_ones() -> None:
    tapped = Tapped("kind=records")
    tapped.open.skip(2)
    tapped.open.before_leaving(lambda: tapped.open.skip(3))
    assert [after_s for after_s, _ in tapped.timers.due] == [COUNT_S]
    tapped.open.add({"number": 1})
    tapped.open.skip(1)
    assert [after_s for after_s, _ in tapped.timers.due] == [FLUSH_S]
    tapped.timers.run()
    assert (tapped.lines, tapped.skipped, tapped.timers.due) == ([{"number": 1}], 6, [])


def test_lines_are_made_as_they_leave_and_after_what_comes_before_them() -> None:
    tapped = Tapped("kind=requests")
    made: list[str] = []
    tapped.open.before_leaving(lambda: made.append("before"))
    tapped.open.add(lambda: {"after": list(made)})
    tapped.open.add(lambda: None)
    assert made == []
    assert tapped.flush() == [{"after": ["before"]}]


def test_a_reader_is_not_woken_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    tapped = Tapped("kind=requests")
    delivered: list[int] = []
    monkeypatch.setattr(tapped.open, "_deliver", lambda lines, number, skipped: delivered.append(number + skipped))
    tapped.open.before_leaving(lambda: None)
    tapped.open.add(lambda: None)
    tapped.flush()
    assert delivered == []
    tapped.open.before_leaving(lambda: tapped.open.skip(2))
    tapped.flush()
    assert delivered == [2]
