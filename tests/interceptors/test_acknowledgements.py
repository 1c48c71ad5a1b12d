"""What a producer's chain is notified of: metadata, errors and headers of acknowledged records (KIP-42, KIP-512)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.producer_interceptors import Edits, Hears, HearsHeaders, HearsWhole, adds, appends

from kafka_sidecar.codec.records import Records
from kafka_sidecar.interceptors import producing
from kafka_sidecar.interceptors.contract import (
    AcknowledgedBatch,
    Context,
    ProducerInterceptor,
    RecordMetadata,
    SendError,
)
from kafka_sidecar.interceptors.headers import ReadOnlyError

NOW = 1_700_000_000_000  # ms
Batches = Callable[..., Records]


def acknowledged(context: Context, count: int, **about: Any) -> AcknowledgedBatch:
    return AcknowledgedBatch("orders", 3, count, context, NOW, **about)


RECORDS = ({"key": b"kk", "value": b"vvv", "timestamp": NOW + 1}, {"key": None, "value": None, "timestamp": NOW + 2})


def test_metadata_is_complete_on_success(a_batch: Batches, chain: Any, context: Any) -> None:
    hears, own = Hears(), context()
    producers = chain(hears)
    producers.notify(acknowledged(own, 2, base_offset=40), producers.collect_details(a_batch(*RECORDS)), None)
    assert hears.heard == [
        (RecordMetadata("orders", 3, 40, NOW + 1, 2, 3, own), None),
        (RecordMetadata("orders", 3, 41, NOW + 2, -1, -1, own), None),
    ]


def test_with_log_append_time_the_timestamp_is_the_brokers(a_batch: Batches, chain: Any, context: Any) -> None:
    hears = Hears()
    producers = chain(hears)
    answer = acknowledged(context(), 2, base_offset=40, log_append_time=NOW + 99)
    producers.notify(answer, producers.collect_details(a_batch(*RECORDS)), None)
    assert [metadata.timestamp for metadata, _ in hears.heard] == [NOW + 99] * 2


def test_with_acks_0_only_the_offset_is_unknown(a_batch: Batches, chain: Any, context: Any) -> None:
    hears = Hears()
    producers = chain(hears)
    producers.notify(acknowledged(context(), 2), producers.collect_details(a_batch(*RECORDS)), None)
    assert [metadata[2:6] for metadata, _ in hears.heard] == [(-1, NOW + 1, 2, 3), (-1, NOW + 2, -1, -1)]


def test_on_error_metadata_has_topic_and_partition(a_batch: Batches, chain: Any, context: Any) -> None:
    hears, error = Hears(), SendError("no", 87)
    producers = chain(hears)
    producers.notify(acknowledged(context(), 2), producers.collect_details(a_batch(*RECORDS)), error)
    assert [(metadata[:6], exception) for metadata, exception in hears.heard] == [
        (("orders", 3, -1, -1, -1, -1), error)
    ] * 2


def test_sizes_are_those_after_the_chain(a_batch: Batches, chain: Any, context: Any) -> None:
    hears = Hears()
    producers = chain(Edits(appends(b"1234")), hears)
    left = producers.send(context(), "orders", 3, a_batch(*RECORDS))
    producers.notify(acknowledged(context(), 2, base_offset=0), producers.collect_details(left), None)
    assert [metadata.serialized_value_size for metadata, _ in hears.heard] == [7, 4]


def test_headers_are_passed_read_only_as_they_were_sent(a_batch: Batches, chain: Any, context: Any) -> None:
    hears = HearsHeaders()
    producers = chain(Edits(adds("x")), hears)
    left = producers.send(context(), "orders", 3, a_batch({"headers": [("h", b"1")]}, {}))
    for error in (None, SendError("no")):
        hears.headers = []
        producers.notify(acknowledged(context(), 2), producers.collect_details(left), error)
        assert [[header.key for header in headers] for headers in hears.headers] == [["h", "x"], ["x"]]
    for headers in hears.headers:
        with pytest.raises(ReadOnlyError):
            headers.add("late", b"")


def test_headers_are_kept_only_for_interceptors_that_take_them(a_batch: Batches, chain: Any) -> None:
    records = a_batch(*RECORDS)
    assert chain(Hears()).collect_details(records).records is None
    assert chain(Hears(), HearsHeaders()).collect_details(records).records is records
    assert chain(HearsWhole()).collect_details(records) is None


def test_interceptors_are_notified_in_configured_order_and_exceptions_are_ignored(
    chain: Any, context: Any, report: Any
) -> None:
    order: list[str] = []

    class Notes(ProducerInterceptor):
        def __init__(self, name: str) -> None:
            self.name = name

        def on_acknowledgement(self, metadata: RecordMetadata, exception: Exception | None) -> None:
            order.append(f"{self.name}{metadata.offset}")
            raise SystemExit(self.name)

    whole = HearsWhole()
    producers = chain(Notes("a"), Notes("b"), whole, Notes("c"))
    producers.notify(acknowledged(context(), 2, base_offset=0), None, None)
    assert order == ["a0", "b0", "a1", "b1", "c0", "c1"]
    assert len(whole.heard) == 1
    assert [failure[:2] for failure in report.failures] == [(name, "on_acknowledgement") for name in "010133"]


def test_a_hook_for_batches_is_called_once_per_batch(chain: Any, context: Any) -> None:
    whole, error = HearsWhole(), SendError("no")
    batch = acknowledged(context(), 1000)
    chain(whole).notify(batch, None, error)
    assert whole.heard == [(batch, error)]


def test_without_wants_records_nothing_is_decoded_and_each_record_is_acknowledged(
    a_batch: Batches, chain: Any, context: Any
) -> None:
    hears = Hears(wants_records=False)
    producers = chain(hears)
    assert not producers.needs_records
    assert producers.wants_acknowledgements
    assert producers.collect_details(a_batch(*RECORDS)) is None
    producers.notify(acknowledged(context(), 2, base_offset=40, log_append_time=NOW), None, None)
    assert [metadata[2:6] for metadata, _ in hears.heard] == [(40, NOW, -1, -1), (41, NOW, -1, -1)]


def test_sizes_of_very_large_batches_are_not_kept(
    chain: Any, a_batch: Batches, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producing, "MAX_DETAILED_RECORDS", 2)
    hears = Hears()
    producers = chain(hears)
    assert producers.collect_details(a_batch({}, {})) is not None
    assert producers.collect_details(a_batch({}, {}, {})) is None
    producers.notify(acknowledged(context(), 3, base_offset=40), None, None)
    assert [metadata[2:6] for metadata, _ in hears.heard] == [(offset, -1, -1, -1) for offset in (40, 41, 42)]
