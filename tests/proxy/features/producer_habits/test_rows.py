"""Rows of `/producers` of several workers are one for each client and topic."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.producer_habits import sent

from kafka_sidecar.proxy.features.producer_habits.clients import Producer, join_rows, key_of
from kafka_sidecar.proxy.features.producer_habits.habits import Habit

SIZES = ("x", "x" * 50, "x" * 3000)


def row(batches: list[tuple[int, int, int]], since: int = 0, topic: str = "orders") -> dict[str, Any]:
    """Of batches of a size, codec and acks, one each second."""
    producer = Producer(key_of("app", "User:alice", "java 4", topic), since)
    for size, codec, acks in batches:
        producer.count(sent(SIZES[size]).header, codec, acks)
        producer.at += 1
        if codec == 0:
            producer.faults[Habit.COMPRESSION] += 1
    return producer.describe(lambda at: f"2026-11-27T10:00:{at:04.0f}Z")


BATCHES = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 4), st.integers(0, 3)), min_size=1, max_size=30)


@given(BATCHES, BATCHES)
def test_batches_of_two_workers_make_the_row_that_one_would_have(first: Any, second: Any) -> None:
    (joined,) = join_rows([row(first), row(second)])
    whole = row(first + second)
    assert joined.pop("worker") is None  # it is of several
    assert joined.pop("at") == max(row(first)["at"], row(second)["at"])
    assert {name: value for name, value in whole.items() if name not in ("at", "idempotent", "transactional")} == {
        name: value for name, value in joined.items() if name not in ("idempotent", "transactional")
    }
    assert joined["idempotent"] == pytest.approx(whole["idempotent"], abs=0.001)


def test_the_first_time_and_the_last_are_those_of_all() -> None:
    first, second = row([(0, 0, 3)] * 3, since=5), {**row([(0, 0, 3)], since=20), "client": "10.0.0.2"}
    (joined,) = join_rows([first, second])
    assert (joined["since"], joined["at"]) == (first["since"], second["at"])
    assert joined["client"] == "10.0.0.2"


def test_rows_of_other_topics_stay_as_they_are() -> None:
    rows = [row([(0, 0, 3)]), row([(0, 0, 3)], topic="payments")]
    assert join_rows(rows) == rows
