"""Estimates against exact sets."""

from __future__ import annotations

import random

import pytest

from kafka_sidecar.interceptors.builtin.hyperloglog import REGISTERS, STANDARD_ERROR, Sketch

# The hash has a secret, so each run is a new try: five standard errors are missed once in a million.
SIGMAS = 5


@pytest.mark.parametrize("count", [1, 2, 10, 100, 1_000, 10_000, 20_000, 100_000])
def test_an_estimate_is_near_the_number_of_different_keys(count: int) -> None:
    sketch, keys = Sketch(), [b"order-%d" % number for number in range(count)]
    for start in range(0, count, 999):  # as many as a batch has
        sketch.add(keys[start : start + 999])
    assert abs(sketch.estimate() - count) <= max(SIGMAS * STANDARD_ERROR * count, 2)


def test_repeated_keys_are_not_counted_again() -> None:
    sketch, keys = Sketch(), [b"%d" % number for number in range(5000)]
    sketch.add(keys)
    once = sketch.estimate()
    for _ in range(3):
        random.shuffle(keys)
        sketch.add(keys[:2500])
    assert sketch.estimate() == once


def test_the_estimate_does_not_depend_on_the_number_of_batches() -> None:
    at_once, one_by_one = Sketch(), Sketch()
    at_once.add(b"%d" % number for number in range(40_000))
    for number in range(40_000):
        one_by_one.add([b"%d" % number])
    assert at_once.estimate() == one_by_one.estimate()


def test_without_keys_the_estimate_is_zero() -> None:
    assert Sketch().estimate() == 0


def test_the_empty_key_is_counted() -> None:
    sketch = Sketch()
    sketch.add([b""])
    assert round(sketch.estimate()) == 1


def test_the_error_is_within_the_documented_bound() -> None:
    errors = []
    for start in range(0, 60_000, 2_000):
        sketch = Sketch()
        sketch.add(b"%d" % number for number in range(start, start + 2_000))
        errors.append(sketch.estimate() / 2_000 - 1)
    spread = (sum(error**2 for error in errors) / len(errors)) ** 0.5
    assert 0 < spread < 2 * STANDARD_ERROR
    assert round(STANDARD_ERROR, 3) == 0.016
    assert REGISTERS == 4096
