"""Regular expressions of RE2."""

from __future__ import annotations

import pytest

from kafka_sidecar.plugins.regular_expressions import compile_pattern


@pytest.mark.parametrize("pattern", ["(a+)+", "(a|a)*", "(a|aa)+", "(.*)*"])
def test_matching_time_is_linear_in_the_input(pattern: str) -> None:
    """A backtracking engine would not finish: it needs at least 10^12 / 4 steps."""
    assert not compile_pattern(pattern + "x")(b"a" * 500_000)


def test_patterns_match_utf_8_characters() -> None:
    assert compile_pattern("gr.n")("grün".encode())
    assert not compile_pattern("gr.n")(b"gr\xfcn")
    assert not compile_pattern("gr..n")("grün".encode())


@pytest.mark.parametrize("pattern", ["[", "(?=a)", r"(a)\1", "a{2000}", "*"])
def test_a_pattern_that_re2_does_not_support_is_rejected(pattern: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match=r"is not valid in RE2: .*; RE2 has no look-around"):
        compile_pattern(pattern)
    assert capfd.readouterr() == ("", "")
