"""Percentiles of merged log buckets."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from pyspark.sql import SparkSession

from kafka_sidecar.pipeline.reconcile.latency import percentiles
from pipeline.reconcile.made import counts, frame
from pipeline.reconcile.truth import SHARES


def test_percentiles_are_those_of_all_values_in_any_order(spark: SparkSession) -> None:
    dice = random.Random(1)
    merged: list[int] = []
    events = []
    for _ in range(12):
        values = Counter(dice.choices(range(80), k=dice.randint(1, 300)))
        merged += values.elements()
        latency = {"base": 1.1, "i": sorted(values), "c": [values[i] for i in sorted(values)]}
        events.append(counts("a", 0, 0, "produce_ack", [[0, 1]], latency=latency))
    (row,) = percentiles(frame(spark, *events), ["topic"]).collect()
    merged.sort()
    for name, share in SHARES.items():
        rank = -(-share * len(merged) // 1000)
        assert row[name] == pytest.approx(1.1 ** merged[rank - 1])


def test_buckets_of_different_bases_are_merged(spark: SparkSession) -> None:
    events = [
        counts("a", 0, 0, "produce_ack", [[0, 1]], latency={"base": 2.0, "i": [3], "c": [3]}),
        counts("a", 0, 1, "produce_ack", [[2, 3]], latency={"base": 10.0, "i": [1], "c": [1]}),
    ]
    (row,) = percentiles(frame(spark, *events), ["topic"]).collect()
    assert (row.p50_ms, row.max_ms) == (8, 10)


def test_without_latencies_there_is_no_row(spark: SparkSession) -> None:
    assert percentiles(frame(spark, counts("a", 0, 0, "commit", [[0, 1]])), ["topic"]).collect() == []
