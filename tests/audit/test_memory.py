"""What is remembered of earlier intervals."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kafka_sidecar.audit.memory import MAX_RANGES, Delivered, Recent


def test_the_entries_used_last_are_kept() -> None:
    recent: Recent[int, str] = Recent(3)
    recent.put(0, "used again and again")
    for number in range(1, 100):
        recent.put(number, str(number))
        assert recent.get(0) == "used again and again"
        assert len(recent) <= 6
    assert recent.get(99) == "99"
    assert recent.get(1) is None


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 5))))
def test_offsets_that_were_sent_before_are_counted(batches: list[tuple[int, int]]) -> None:
    delivered, seen = Delivered(), set[int]()
    for first, more in batches:
        offsets = set(range(first, first + more + 1))
        assert delivered.add(first, first + more, 1000) == len(offsets & seen)
        seen |= offsets


def test_only_the_latest_ranges_are_kept() -> None:
    delivered = Delivered()
    for number in range(MAX_RANGES + 1):
        delivered.add(10 * number, 10 * number, 1000)
    assert delivered.add(0, 0, 1000) == 0
    assert delivered.add(10 * MAX_RANGES, 10 * MAX_RANGES, 1000) == 1


def test_the_offsets_of_a_topic_that_was_created_again_are_new() -> None:
    delivered = Delivered()
    delivered.add(0, 9, 1000)
    delivered.add(10, 19, 3000)
    assert delivered.add(0, 9, 3001) == 0
    assert delivered.add(0, 9, 1000) == 10
    assert delivered.add(10, 19, 2000) == 0


def test_a_read_that_goes_on_beyond_what_was_sent_is_partly_a_repetition_whatever_its_time() -> None:
    delivered = Delivered()
    delivered.add(0, 9, 1000)
    assert delivered.add(5, 14, 2000) == 5
    assert delivered.add(0, 14, 2000) == 15
