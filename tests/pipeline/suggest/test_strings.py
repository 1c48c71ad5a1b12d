"""What strings have in common, and that no order matters."""

from __future__ import annotations

import re
from uuid import UUID

import pytest
import re2
from hypothesis import given
from hypothesis import strategies as st

from kafka_sidecar.pipeline.suggest.strings import MAX_TEMPLATES, MAX_VALUES, PATTERNS, Strings, forms_of

TEXTS = st.one_of(
    st.text(max_size=70),
    st.sampled_from(["NEW", "PAID", "SENT", "order-1", "order-22"]),
    st.from_regex(r"order-[0-9]{1,3}", fullmatch=True),
    *(st.from_regex(f"^{pattern}$", fullmatch=True) for pattern in PATTERNS.values()),
)


def strings(texts: list[str]) -> Strings:
    found = Strings()
    for one in texts:
        found.add(one)
    return found


@given(st.lists(TEXTS, max_size=60), st.lists(TEXTS, max_size=60), st.lists(TEXTS, max_size=30))
def test_strings_merge_in_any_order(one: list[str], two: list[str], three: list[str]) -> None:
    whole = strings(one + two + three)
    for a, b, c in ((one, two, three), (three, one, two), (two, three, one)):
        left, right, other = strings(a), strings(b), strings(a)
        left.merge(strings(b))
        left.merge(strings(c))
        right.merge(strings(c))
        other.merge(right)
        assert left == other == whole


@given(TEXTS)
def test_a_string_has_each_of_its_forms_in_both_dialects(text: str) -> None:
    for name in forms_of(text):
        assert re.fullmatch(PATTERNS[name], text)
        assert re2.fullmatch(PATTERNS[name], text)


@given(st.lists(TEXTS, min_size=1, max_size=80), st.sampled_from([0.0, 0.01, 0.3]))
def test_a_pattern_is_matched_by_all_but_the_tolerated(texts: list[str], tolerance: float) -> None:
    _, pattern = strings(texts).pattern(tolerance)
    if pattern is not None:
        others = sum(re2.fullmatch(pattern, text) is None for text in texts)
        # Form and lengths are two rules with a tolerance each.
        assert others <= 2 * tolerance * len(texts)


@pytest.mark.parametrize(
    ("texts", "form", "pattern"),
    [
        ([str(UUID(int=n)) for n in range(100)], "uuid", PATTERNS["uuid"]),
        ([f"2026-11-{n:02}" for n in range(1, 4)], "date", PATTERNS["date"]),
        ([f"2026-11-05T10:00:{n:02}Z" for n in range(40)], "date-time", PATTERNS["date-time"]),
        ([f"{n:08}" for n in range(100)], "digits", "[0-9]{8}"),
        ([str(n) for n in range(100)], "digits", "[0-9]+"),
        ([f"{n * 2**40 + 10:016x}" for n in range(100, 200)], "hex", "[0-9a-f]{16}"),
        ([chr(65 + n) + "EUR"[: n % 3 + 1] for n in range(26)], "upper", "[A-Z]+"),
        ([f"order-{n}" for n in range(100)], None, "order-[0-9]+"),
        ([f"eu.{n}/x" for n in range(100)], None, r"eu\.[0-9]+\/x"),
        ([f"{region}-{n}" for n in range(30) for region in ("eu", "us")], None, "(eu-[0-9]+|us-[0-9]+)"),
        (["order-1", "order-2"], None, None),  # too few to be certain
        (
            [f"{name} {n}" for n, name in enumerate("abcdefghijklm" * 8)],
            None,
            None,
        ),
        (["face", "cafe", "beef"] * 20, None, None),
    ],
)
def test_forms_and_templates_are_found_where_they_are_certain(
    texts: list[str], form: str | None, pattern: str | None
) -> None:
    assert strings(texts).pattern(0) == (form, pattern)


def test_few_values_are_an_enum_only_if_each_is_there_often() -> None:
    assert strings(["NEW", "PAID"] * 100).few_values(0, 100) == ["NEW", "PAID"]
    assert strings(["NEW", "PAID"] * 10).few_values(0, 100) is None
    assert strings([*["NEW"] * 200, "typo"]).few_values(0, 100) is None
    assert strings([*["NEW", "PAID"] * 1000, "typo"]).few_values(0.001, 100) == ["NEW", "PAID"]
    assert strings(["2026-11-05", "2026-11-06"] * 1000).few_values(0, 100) is None  # tomorrow there is another one


def test_memory_is_bounded() -> None:
    found = strings([f"{'x' * (n % 20)}{n}" for n in range(MAX_VALUES + 1)] + ["y" * 1000, "0-\0-1"])
    assert found.values is None
    assert found.templates is None
    assert len(strings([f"order-{n}" for n in range(10_000)]).templates or {}) <= MAX_TEMPLATES
