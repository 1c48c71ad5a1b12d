"""Histograms of interceptors."""

from __future__ import annotations

import pytest

from kafka_sidecar.interceptors.metrics import MAX_LABEL_CHARS, OTHER, Histogram, Metric, Series
from kafka_sidecar.plugins.values import BUCKETS


@pytest.mark.parametrize(
    ("microseconds", "bucket"), [(0, 0), (1, 1), (2, 2), (3, 2), (4, 3), (1023, 10), (1024, 11), (2**63 - 1, 63)]
)
def test_histogram_buckets_are_powers_of_two_microseconds(microseconds: int, bucket: int) -> None:
    histogram = Histogram()
    histogram.add(microseconds)
    assert [at for at, count in enumerate(histogram.counts) if count] == [bucket]
    assert histogram.total_us == microseconds


def test_a_negative_duration_is_counted_as_zero() -> None:
    histogram = Histogram()
    histogram.add(-5)
    assert (histogram.counts[0], histogram.total_us) == (1, 0)


def test_a_duration_can_be_added_with_a_count() -> None:
    histogram = Histogram()
    histogram.add(3, times=1000)
    assert (sum(histogram.counts), histogram.total_us) == (1000, 3000)


def test_histograms_are_independent() -> None:
    one, other = Histogram(), Histogram()
    one.add(1)
    assert other.counts == [0] * BUCKETS
    assert Metric("a", "b", ()).counters == {}


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
