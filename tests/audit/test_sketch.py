"""Latency sketches: each bucket has the latencies that the schema says, and merging is exact."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from kafka_sidecar.audit.sketch import BASE, MAX_INDEX, bucket_of, encode

LATENCIES = st.floats(min_value=0, max_value=1e12)


@given(LATENCIES)
def test_a_latency_is_within_the_bounds_of_its_bucket(latency: float) -> None:
    index = bucket_of(latency)
    assert latency <= BASE**index * (1 + 1e-9)
    assert index == 0 or latency > BASE ** (index - 1) * (1 - 1e-9)


def test_bounds_belong_to_the_lower_bucket() -> None:
    assert [bucket_of(BASE**index) for index in range(1, 100)] == list(range(1, 100))


def test_absurd_latencies_are_in_the_last_bucket() -> None:
    assert bucket_of(1e300) == MAX_INDEX
    assert bucket_of(-1e300) == 0


@given(st.lists(LATENCIES), st.lists(LATENCIES))
def test_merged_sketches_are_the_sketch_of_all(some: list[float], others: list[float]) -> None:
    def sketch(values: list[float]) -> Counter[int]:
        return Counter(map(bucket_of, values))

    assert encode(sketch(some) + sketch(others)) == encode(sketch(some + others))


def test_a_sketch_without_latencies_is_none() -> None:
    assert encode({}) is None
    assert encode({3: 1, 0: 2}) == {"base": 1.1, "i": [0, 3], "c": [2, 1]}
