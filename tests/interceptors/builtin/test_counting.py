"""counting: records, bytes and distinct keys of producers."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from kafka_sidecar.codec.records import Records
from kafka_sidecar.interceptors.builtin.counting import REGISTERS, STANDARD_ERROR, Sketch
from kafka_sidecar.interceptors.catalog import InterceptorCatalog, InterceptorSettings
from kafka_sidecar.interceptors.contract import AcknowledgedBatch, Context, RecordBatch, SendError

Made = Callable[..., Any]
# The hash has a secret, so each run is a new try: five standard errors are missed once in a million.
SIGMAS = 5


def shown(counting: Any) -> dict[str, Mapping[tuple[str, ...], float]]:
    return {one.name: one.gauges or one.counters for one in counting.metrics()}


def acknowledged(context: Context, topic: str = "orders", count: int = 1) -> AcknowledgedBatch:
    return AcknowledgedBatch(topic, 0, count, context, 0, 0)


def test_written_and_failed_records_are_counted_separately(configured: Made, context: Callable[..., Context]) -> None:
    counting = configured("counting", bytes=False, keys=False)
    app, other = context(client_id="app"), context(client_id=None)
    counting.on_acknowledgement_batch(acknowledged(app, count=3), None)
    counting.on_acknowledgement_batch(acknowledged(app, count=4), None)
    counting.on_acknowledgement_batch(acknowledged(other, "customers"), None)
    counting.on_acknowledgement_batch(acknowledged(app, count=2), SendError("no", 6))
    assert shown(counting) == {
        "written_records": {("orders", "app"): 7, ("customers", ""): 1},
        "unwritten_records": {("orders", "app"): 2, ("customers", ""): 0},
    }


@pytest.mark.parametrize("codec", [0, 3])
def test_bytes_are_counted_before_compression(
    codec: int, configured: Made, a_batch: Callable[..., Records], context: Callable[..., Context]
) -> None:
    counting = configured("counting")
    records = a_batch({"value": b"v" * 1000, "key": b"k"}, {"value": None}, codec=codec)
    assert counting.on_send_batch(RecordBatch("orders", 0, records, context(client_id="app"))) is records
    # length, attributes, timestamp, offset, key, value, headers; a record that has nothing needs 7
    assert shown(counting)["sent_record_bytes"] == {("orders", "app"): 2 + 1 + 1 + 1 + 2 + 2 + 1000 + 1 + 7}


def test_distinct_keys_are_estimated_without_null_keys(
    configured: Made, a_batch: Callable[..., Records], context: Callable[..., Context]
) -> None:
    counting = configured("counting")
    for client in "a", "b":
        records = a_batch(*({"key": b"%d" % number} for number in range(1000)), {"key": None}, {"key": b""})
        counting.on_send_batch(RecordBatch("orders", 0, records, context(client_id=client)))
    counting.on_send_batch(RecordBatch("logs", 0, a_batch({"key": None}), context()))
    ((labels, estimate),) = shown(counting)["distinct_keys"].items()
    assert labels == ("orders",)
    assert abs(estimate - 1001) <= 5 * STANDARD_ERROR * 1001


def test_changing_client_ids_do_not_fill_the_memory(configured: Made, context: Callable[..., Context]) -> None:
    counting = configured("counting", max_series=2)
    for number in range(100):
        counting.on_acknowledgement_batch(acknowledged(context(client_id=f"app-{number}")), None)
    written = {("orders", "app-0"): 1, ("orders", "app-1"): 1, ("orders", "(other)"): 98}
    assert shown(counting)["written_records"] == written


def test_counts_from_several_threads_are_complete(
    configured: Made, a_batch: Callable[..., Records], context: Made
) -> None:
    counting, here = configured("counting"), context(client_id="app")
    batch = RecordBatch("orders", 0, a_batch({"value": b"x" * 91}), here)

    def many(_: int) -> None:
        for _ in range(500):
            counting.on_send_batch(batch)
            counting.on_acknowledgement_batch(acknowledged(here), None)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(many, range(4)))
    found = shown(counting)
    assert found["written_records"] == {("orders", "app"): 2000}
    assert found["sent_record_bytes"] == {("orders", "app"): 2000 * len(batch.records.payload)}


@pytest.mark.parametrize(
    ("settings", "needs_records", "names"),
    [
        ({}, True, {"written_records", "unwritten_records", "sent_record_bytes", "distinct_keys"}),
        ({"keys": False}, True, {"written_records", "unwritten_records", "sent_record_bytes"}),
        ({"bytes": False}, True, {"written_records", "unwritten_records", "distinct_keys"}),
        ({"bytes": False, "keys": False}, False, {"written_records", "unwritten_records"}),
    ],
)
def test_records_are_decompressed_only_if_bytes_or_keys_are_counted(
    settings: dict[str, Any], needs_records: bool, names: set[str], report: Any
) -> None:
    catalog = InterceptorCatalog([InterceptorSettings("counting", "it", settings=settings)], report)
    chain = catalog.producers("orders")
    assert chain is not None
    assert (chain.needs_records, chain.wants_acknowledgements) == (needs_records, True)
    assert {one.name for one in catalog.guards[0].interceptor.metrics()} == names


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
