"""Buckets fill with time, may owe, and take the same memory however many there are."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from kafka_sidecar.proxy.config.workers import SHARED_BYTES, shared_memory
from kafka_sidecar.proxy.features.rate_limits.buckets import MAX_DEBT_S, PROBED, SLOTS, Bucket, Buckets, key_of

KEY = key_of(["shop"])


def bucket(buckets: Buckets | None = None, key: int = KEY, rate: float = 100.0) -> Bucket:
    """One with a burst of a second; 100 come in in a second."""
    return Bucket(buckets or Buckets(), key, rate, 1.0)


def test_a_burst_may_come_at_once_and_no_more_without_debt() -> None:
    one = bucket()
    assert one.take(75, 100.0) == pytest.approx(-0.25)
    assert one.take(25, 100.0) == pytest.approx(0)
    assert one.take(50, 100.0) == pytest.approx(0.5)


def test_what_is_owed_is_paid_by_time_and_a_bucket_fills_up_to_its_burst() -> None:
    one = bucket()
    one.take(300, 100.0)
    assert one.owed(101.0) == pytest.approx(1.0)
    assert one.owed(102.0) == pytest.approx(0.0)
    assert one.owed(500.0) == pytest.approx(-1.0)


def test_a_batch_that_is_larger_than_the_burst_is_owed_whole() -> None:
    assert bucket().take(2000, 100.0) == pytest.approx(19.0)


def test_no_more_than_some_minutes_are_owed() -> None:
    one = bucket()
    for _ in range(1000):
        owed = one.take(1000, 100.0)
    assert owed == pytest.approx(MAX_DEBT_S)
    assert one.owed(100.0) == pytest.approx(MAX_DEBT_S)


def test_asking_what_is_owed_takes_nothing() -> None:
    buckets = Buckets()
    assert bucket(buckets).owed(100.0, 50) == pytest.approx(-0.5)
    assert buckets.in_use(100.0) == 0


@pytest.mark.parametrize("count", [100, 3 * SLOTS])
def test_names_that_clients_choose_take_no_more_memory(count: int) -> None:
    buckets = Buckets()
    for number in range(count):
        bucket(buckets, key_of(["shop", number])).take(100, 100.0)
    assert min(count, SLOTS * 0.95) <= buckets.in_use(100.0) <= min(count, SLOTS)


def in_the_same_slots(buckets: Buckets, count: int) -> list[Bucket]:
    return [bucket(buckets, (7 + at * SLOTS) * 2 + 1) for at in range(count)]


def test_where_there_is_no_room_the_bucket_that_is_full_soonest_is_given_up() -> None:
    *first, last = everyone = in_the_same_slots(Buckets(), PROBED + 1)
    for number, one in enumerate(first):
        one.take(1000 + 100 * number, 100.0)
    last.take(5000, 100.0)
    owed = [one.owed(100.0) for one in everyone]
    assert owed == pytest.approx([-1.0, *(9.0 + number for number in range(1, PROBED)), 49.0])


def test_a_bucket_that_was_given_up_is_a_full_one_again() -> None:
    *first, last = in_the_same_slots(Buckets(), PROBED + 1)
    for one in first:
        one.take(10_000, 100.0)
    assert last.take(50, 100.0) == pytest.approx(-0.5)
    assert sum(one.owed(100.0) < 0 for one in first) == 1
    assert min(first, key=lambda one: one.owed(100.0)).take(50, 100.0) == pytest.approx(-0.5)


def test_workers_have_their_buckets_in_common() -> None:
    descriptor = shared_memory()
    assert os.fstat(descriptor).st_size == SHARED_BYTES
    try:
        ours = bucket(Buckets(descriptor))
        ours.take(300, 100.0)
        code = (
            "from kafka_sidecar.proxy.features.rate_limits.buckets import Bucket, Buckets, key_of\n"
            f"print(Bucket(Buckets({descriptor}), key_of(['shop']), 100.0, 1.0).take(100, 100.0))"
        )
        theirs = subprocess.run(
            [sys.executable, "-c", code], pass_fds=[descriptor], capture_output=True, text=True, check=True
        )
        assert float(theirs.stdout) == pytest.approx(3.0)
        assert ours.owed(100.0) == pytest.approx(3.0)
    finally:
        os.close(descriptor)


def test_keys_tell_names_apart_whatever_they_contain() -> None:
    assert len({key_of(["a", "b"]), key_of(["a\0b"]), key_of(["ab"]), key_of(["a", "'b"]), key_of(["\ud800"])}) == 5
