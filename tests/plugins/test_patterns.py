"""Patterns of names have `*` and `?`, and cost what their text is long."""

from __future__ import annotations

import time
from fnmatch import fnmatchcase  # noqa: TID251 - the reference

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.lines import Lines

from kafka_sidecar.plugins.patterns import FEW, covers, first_matcher, matcher, matches

NAMES = st.text("ab-.", max_size=8)


@given(st.text("ab-.*?", max_size=6), NAMES)
def test_a_star_matches_any_characters_and_a_question_mark_one(pattern: str, name: str) -> None:
    assert matcher([pattern])(name) == fnmatchcase(name, pattern)


@given(NAMES, st.sampled_from("[]!\\^$+{(\n"))
def test_all_other_characters_match_themselves(name: str, character: str) -> None:
    text = f"{name}{character}{name}"
    assert matcher([text])(text)
    assert not matcher([text])(f"{name}x{name}")


@given(st.lists(st.text("ab-.*?", max_size=4), max_size=4), NAMES)
def test_of_several_patterns_one_is_enough(patterns: list[str], name: str) -> None:
    assert matcher(patterns)(name) == any(fnmatchcase(name, pattern) for pattern in patterns)


@given(st.lists(st.lists(st.text("ab-.*?", max_size=4), max_size=3), max_size=4), NAMES)
def test_of_several_lists_it_is_the_first_with_a_pattern_that_matches(lists: list[list[str]], name: str) -> None:
    expected = next((at for at, patterns in enumerate(lists) if matcher(patterns)(name)), None)
    assert first_matcher(lists)(name) == expected


@pytest.mark.parametrize("count", [FEW, FEW + 1, 5_000])
def test_of_many_patterns_the_same_match_as_of_few(count: int) -> None:
    match = matcher(f"team-{at}-*" if at % 3 else f"team-{at}-?x" for at in range(count))
    last = count - 1 - (count - 1) % 3
    assert all(map(match, (f"team-{last}-ax", f"team-{last - 1}-anything")))
    assert not any(map(match, (f"team-{last}-a", f"team-{count}-a", "team")))


def test_a_text_is_compared_only_with_patterns_that_begin_as_it_does() -> None:
    first = first_matcher([f"team-{at}-*-eu"] for at in range(10_000))
    with Lines() as lines:
        assert first("team-9999-orders-eu") == 9999
        assert first("team-x") is None
    assert lines.count < 100


def test_a_few_patterns_are_asked_at_once() -> None:
    assert matches("app [prod]", ["other", "app [prod]"])
    assert not matches("app p", ["other", "app [prod]"])
    assert not matches("app", [])


@pytest.mark.parametrize("pattern", ["*a" * 30 + "*b", "*a*a*a*a*?b", "a*" * 100 + "b"])
def test_a_name_that_nearly_matches_costs_no_more_than_its_length(pattern: str) -> None:
    began = time.perf_counter()
    assert not matcher([pattern])("a" * 10_000)
    assert time.perf_counter() - began < 1


def test_upper_and_lower_case_differ() -> None:
    assert not matches("Orders", ["orders", "o*", "?rder"])


@given(st.text("ab*?", max_size=5), st.text("ab*?", max_size=5), st.text("ab", max_size=6))
def test_a_pattern_that_covers_another_one_matches_all_that_it_matches(wider: str, narrower: str, name: str) -> None:
    assert not (covers(wider, narrower) and matches(name, [narrower])) or matches(name, [wider])
