"""Entries of ``topics:`` that never apply are mistakes, and no others."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_sidecar.proxy.config.topic_order import find_dead_entries


@pytest.mark.parametrize(
    ("names", "dead"),
    [
        (["orders", "orders"], [1]),
        (["orders*", "orders-eu"], [1]),
        (["orders*", "orders-*-eu", "orders-?"], [1, 2]),
        (["*", "a", "b*"], [1, 2]),
        (["a?", "ab", "a*"], [1]),
        (["orders-eu", "orders*", "payments"], []),
        (["?", "*"], []),
        (["a*b", "a*"], []),
        (["[ab]", "a"], []),
    ],
)
def test_an_entry_that_an_earlier_one_covers_is_a_mistake(names: list[str], dead: list[int]) -> None:
    assert [mistake.location for mistake in find_dead_entries(names)] == [("topics", index, "name") for index in dead]


SYMBOLS = st.text("ab*?", min_size=1, max_size=4)


@given(st.lists(SYMBOLS, max_size=4), st.text("ab", max_size=6))
def test_no_topic_has_an_entry_that_is_reported_as_never_applying(names: list[str], topic: str) -> None:
    dead = {mistake.location[1] for mistake in find_dead_entries(names)}
    first = next((index for index, name in enumerate(names) if fnmatchcase(topic, name)), None)
    assert first not in dead
