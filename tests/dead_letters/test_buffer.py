"""The buffer of letters, which is never larger than it may be, and the rate at which they come."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kafka_sidecar.dead_letters.buffer import Buffer, Rate
from kafka_sidecar.dead_letters.parcels import Letter, Parcel


def parcel(size: int, name: str = "t", letters: int = 1) -> Parcel:
    return Parcel(name, 0, (Letter(0, (b"",)),) * letters, 0.0, size)


@given(st.lists(st.one_of(st.integers(1, 60), st.none()), max_size=40))
def test_parcels_come_out_in_order_and_never_take_more_than_they_may(steps: list[int | None]) -> None:
    buffer = Buffer(100)
    expected: list[Parcel] = []
    for number, size in enumerate(steps):
        if size is None:
            taken = buffer.take(50)
            assert taken == expected[: len(taken)]
            assert bool(taken) == bool(expected)
            del expected[: len(taken)]
        elif buffer.add(one := parcel(size, f"t{number}", 2)):
            expected.append(one)
        else:
            assert sum(one.size for one in expected) + size > 100
        assert buffer.bytes == sum(one.size for one in expected) <= 100
        assert buffer.letters == 2 * len(expected)


def test_what_is_put_back_comes_first() -> None:
    buffer = Buffer(100)
    first, second, third = parcel(60, "1"), parcel(30, "2"), parcel(40, "3")
    assert buffer.add(first)
    assert buffer.add(second)
    assert buffer.take(1) == [first]
    assert buffer.add(third)
    buffer.put_back([first])
    assert [buffer.take(1), buffer.take(1), buffer.take(1), buffer.take(1)] == [[first], [second], [third], []]


def test_ten_seconds_have_so_much_and_a_larger_piece_waits_for_all_of_them() -> None:
    now = [0.0]
    rate = Rate(1, lambda: now[0])
    assert [rate.take(1) for _ in range(11)] == [True] * 10 + [False]
    assert rate.is_used_up
    now[0] = 5.0
    assert not rate.is_used_up
    assert [rate.take(1) for _ in range(6)] == [True] * 5 + [False]
    now[0] = 10.0
    assert not rate.take(25)
    now[0] = 20.0
    assert rate.take(25)
    now[0] = 35.5
    assert not rate.take(1)
    now[0] = 36.0
    assert rate.take(1)


def test_another_rate_holds_at_once() -> None:
    now = [0.0]
    rate = Rate(10, lambda: now[0])
    rate.change(0.2)
    assert [rate.take(1) for _ in range(3)] == [True, True, False]
    now[0] = 100.0
    assert [rate.take(1) for _ in range(3)] == [True, True, False]


def test_what_is_used_up_stays_so_until_a_quarter_of_a_second_has_refilled_it() -> None:
    now = [0.0]
    rate = Rate(100, lambda: now[0])
    assert [rate.take(1) for _ in range(1001)] == [True] * 1000 + [False]
    looked, taken = 0, 0
    for turn in range(1, 1001):  # a second, at each of whose milliseconds there is more to take
        now[0] = turn / 1000
        if rate.is_used_up:
            continue
        looked += 1
        while rate.take(1):
            taken += 1
    assert looked == 4
    assert 99 <= taken <= 100


def test_a_piece_that_is_too_large_keeps_smaller_ones_waiting_only_where_little_is_left() -> None:
    now = [0.0]
    rate = Rate(100, lambda: now[0])
    assert rate.take(900)
    assert not rate.take(200)
    assert not rate.is_used_up
    assert rate.take(80)
    assert not rate.take(30)
    assert rate.is_used_up
    assert not rate.take(1)
    now[0] = 0.06
    assert rate.take(1)
