"""The defaults of the interceptor classes, and their errors."""

from __future__ import annotations

from collections.abc import Callable

from kafka_sidecar.interceptors.contract import (
    ConsumerInterceptor,
    Context,
    Hints,
    Interceptor,
    OffsetAndMetadata,
    Offsets,
    ProducerInterceptor,
    RecordMetadata,
    SendError,
    TopicPartition,
)
from kafka_sidecar.interceptors.headers import Headers
from kafka_sidecar.interceptors.records import ConsumerRecord, ConsumerRecords, ProducerRecord

PLACE = TopicPartition("orders", 3)


def test_a_producer_interceptor_that_overrides_nothing_changes_nothing() -> None:
    record = ProducerRecord("orders", 3)
    assert ProducerInterceptor().on_send(record) is record


def test_a_consumer_interceptor_that_overrides_nothing_changes_nothing(context: Callable[[], Context]) -> None:
    records = ConsumerRecords([ConsumerRecord("orders", 3, 7)])
    offsets = Offsets({PLACE: OffsetAndMetadata(5)}, context())
    interceptor = ConsumerInterceptor()
    assert interceptor.on_consume(records) is records
    assert interceptor.pre_commit(offsets) is offsets
    interceptor.on_commit(offsets)
    assert offsets == {PLACE: OffsetAndMetadata(5)}


def test_without_the_headers_hook_records_are_acknowledged_without_headers() -> None:
    class Sees(ProducerInterceptor):
        def on_acknowledgement(self, metadata: RecordMetadata, exception: Exception | None) -> None:
            self.seen = metadata, exception

    interceptor = Sees()
    metadata, error = RecordMetadata("orders", 3), SendError("no")
    interceptor.on_acknowledgement_with_headers(metadata, error, Headers())
    assert interceptor.seen == (metadata, error)


def test_configure_metrics_and_close_are_optional() -> None:
    interceptor = Interceptor()
    interceptor.configure({})
    assert interceptor.hints() == Hints(topics=("*",), wants_records=True, fail_closed=False)
    assert list(interceptor.metrics()) == []
    interceptor.close()


def test_a_send_error_has_kafkas_code_and_whether_it_is_retriable() -> None:
    error = SendError("not leader", 6, retriable=True)
    assert (str(error), error.code, error.retriable) == ("not leader", 6, True)
    assert (SendError("lost").code, SendError("lost").retriable) == (-1, False)


def test_only_invalid_records_have_the_error_of_the_batch() -> None:
    every = SendError("not leader", 6, retriable=True)
    assert every.of(0) is every
    error = SendError("bad records", 87, bad_records={1: "no key"})
    assert [(str(one), one.code) for one in map(error.of, range(2))] == [
        ("other records of its batch were rejected", -1),
        ("no key", 87),
    ]
