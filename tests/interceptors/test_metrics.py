"""Histograms of interceptors."""

from __future__ import annotations

import pytest

from kafka_sidecar.interceptors.metrics import BUCKETS, Histogram, Metric


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
