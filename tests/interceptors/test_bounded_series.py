"""The number of time series of a metric is bounded."""

from __future__ import annotations

from kafka_sidecar.interceptors.bounded_series import MAX_LABEL_CHARS, OTHER, Series


def test_label_values_above_the_limit_are_counted_together() -> None:
    series: Series[list[int]] = Series(list, max_series=2)
    for number, labels in enumerate(
        [("a", "1"), ("a", "2"), ("a", "3"), ("b", "1"), ("c", "1"), ("d", "1"), ("a", "1")]
    ):
        series.of(labels).append(number)
    assert series.values == {
        ("a", "1"): [0, 6],
        ("a", "2"): [1],
        ("a", OTHER): [2],
        ("b", OTHER): [3],
        (OTHER, OTHER): [4, 5],
    }


def test_the_number_of_series_is_bounded() -> None:
    series: Series[list[int]] = Series(list, max_series=10)
    for number in range(10_000):
        series.of((str(number % 100), str(number)))
    assert len(series.values) == 2 * 10 + 1


def test_a_long_label_is_truncated() -> None:
    series: Series[list[int]] = Series(list, max_series=10)
    assert series.of(("x" * 1_000_000,)) is series.of(("x" * MAX_LABEL_CHARS,))
