"""Patterns of names have `*` and `?`, and cost what their text is long."""

from __future__ import annotations

from fnmatch import fnmatchcase

from hypothesis import given
from hypothesis import strategies as st

from kafka_sidecar.plugins.patterns import matcher, matches

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


def test_a_few_patterns_are_asked_at_once() -> None:
    assert matches("app [prod]", ["other", "app [prod]"])
    assert not matches("app p", ["other", "app [prod]"])
    assert not matches("app", [])
