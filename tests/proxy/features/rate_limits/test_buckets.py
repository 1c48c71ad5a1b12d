"""Buckets fill with time, may owe, and take the same memory however many there are."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kafka_sidecar.proxy.config.workers import SHARED_BYTES, shared_memory
from kafka_sidecar.proxy.features.rate_limits.buckets import MAX_DEBT_S, PROBED, SLOTS, Buckets, key_of

KEY = key_of(["shop"])


def test_a_burst_may_come_at_once_and_no_more_without_debt() -> None:
    buckets = Buckets()
    assert buckets.charge(KEY, 0.75, 1.0, 100.0) == pytest.approx(-0.25)
    assert buckets.charge(KEY, 0.25, 1.0, 100.0) == pytest.approx(0)
    assert buckets.charge(KEY, 0.5, 1.0, 100.0) == pytest.approx(0.5)


def test_what_is_owed_is_paid_by_time_and_a_bucket_fills_up_to_its_burst() -> None:
    buckets = Buckets()
    buckets.charge(KEY, 3.0, 1.0, 100.0)
    assert buckets.owed(KEY, 1.0, 101.0) == pytest.approx(1.0)
    assert buckets.owed(KEY, 1.0, 102.0) == pytest.approx(0.0)
    assert buckets.owed(KEY, 1.0, 500.0) == pytest.approx(-1.0)


def test_a_batch_that_is_larger_than_the_burst_is_owed_whole() -> None:
    assert Buckets().charge(KEY, 20.0, 1.0, 100.0) == pytest.approx(19.0)


def test_no_more_than_some_minutes_are_owed() -> None:
    buckets = Buckets()
    for _ in range(1000):
        owed = buckets.charge(KEY, 10.0, 1.0, 100.0)
    assert owed == pytest.approx(MAX_DEBT_S)


def test_asking_what_is_owed_takes_nothing() -> None:
    buckets = Buckets()
    assert buckets.owed(KEY, 1.0, 100.0) == pytest.approx(-1.0)
    assert buckets.in_use(100.0) == 0


@pytest.mark.parametrize("count", [100, 3 * SLOTS])
def test_names_that_clients_choose_take_no_more_memory(count: int) -> None:
    buckets = Buckets()
    for number in range(count):
        buckets.charge(key_of(["shop", number]), 1.0, 1.0, 100.0)
    assert min(count, SLOTS * 0.95) <= buckets.in_use(100.0) <= min(count, SLOTS)


def test_where_there_is_no_room_the_bucket_that_is_full_soonest_is_given_up() -> None:
    buckets, same_slots = Buckets(), [(7 + at * SLOTS) * 2 + 1 for at in range(PROBED + 1)]
    for number, key in enumerate(same_slots[:-1]):
        buckets.charge(key, 10.0 + number, 1.0, 100.0)
    buckets.charge(same_slots[-1], 50.0, 1.0, 100.0)
    owed = [buckets.owed(key, 1.0, 100.0) for key in same_slots]
    assert owed == pytest.approx([-1.0, *(9.0 + number for number in range(1, PROBED)), 49.0])


def test_a_new_bucket_is_full_where_another_one_was_given_up() -> None:
    buckets = Buckets()
    for at in range(PROBED):
        buckets.charge((7 + at * SLOTS) * 2 + 1, 100.0, 1.0, 100.0)
    assert buckets.charge((7 + PROBED * SLOTS) * 2 + 1, 0.5, 1.0, 100.0) == pytest.approx(-0.5)


def test_workers_have_their_buckets_in_common(tmp_path: Path) -> None:
    descriptor = shared_memory()
    assert os.fstat(descriptor).st_size == SHARED_BYTES
    try:
        ours = Buckets(descriptor)
        ours.charge(KEY, 3.0, 1.0, 100.0)
        code = (
            "from kafka_sidecar.proxy.features.rate_limits.buckets import Buckets, key_of\n"
            f"print(Buckets({descriptor}).charge(key_of(['shop']), 1.0, 1.0, 100.0))"
        )
        theirs = subprocess.run(
            [sys.executable, "-c", code], pass_fds=[descriptor], capture_output=True, text=True, check=True
        )
        assert float(theirs.stdout) == pytest.approx(3.0)
        assert ours.owed(KEY, 1.0, 100.0) == pytest.approx(3.0)
    finally:
        os.close(descriptor)


def test_keys_tell_names_apart_whatever_they_contain() -> None:
    assert len({key_of(["a", "b"]), key_of(["a\0b"]), key_of(["ab"]), key_of(["a", "'b"]), key_of(["\ud800"])}) == 5
