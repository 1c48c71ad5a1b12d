"""The interceptors of a producer, in order: `on_send` for a batch, `on_acknowledgement` when its result is known.

Each gets the result of the one before it. One that fails is skipped, and its changes are undone (KIP-42).
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from typing import NamedTuple

from kafka_sidecar.codec.records import Change, Header, Record, Records, edit_records
from kafka_sidecar.interceptors.contract import (
    UNKNOWN,
    AcknowledgedBatch,
    Context,
    ProducerInterceptor,
    RecordBatch,
    RecordMetadata,
    SendError,
)
from kafka_sidecar.interceptors.guard import Guard, RecordCalls, group_guards, has_override
from kafka_sidecar.interceptors.headers import Headers, Journal, undo
from kafka_sidecar.interceptors.records import BatchInfo, ProducerRecord, record_of
from kafka_sidecar.plugins.pace import Pace, are_ours
from kafka_sidecar.plugins.violations import ContractTypeError, ContractValueError

ON_SEND, ON_ACKNOWLEDGEMENT = "on_send", "on_acknowledgement"
ON_SEND_BATCH, ON_ACKNOWLEDGEMENT_BATCH = "on_send_batch", "on_acknowledgement_batch"
WITH_HEADERS = "on_acknowledgement_with_headers"
MAX_DETAILED_RECORDS = 1_000_000  # of a batch: a record can have 7 bytes, its details take 24


class Details(NamedTuple):
    """What is kept of the records of a batch until it is acknowledged."""

    timestamps: Sequence[int]  # ms since 1970
    key_sizes: Sequence[int]  # bytes, -1: null
    value_sizes: Sequence[int]
    records: Records | None  # None: no interceptor needs their headers


class Producers:
    """The interceptors of one topic's producers, and how long they take. All else is immutable."""

    __slots__ = (
        "_ack_groups", "_keeps_details", "_keeps_headers", "_send_groups", "guards", "needs_records", "notify_pace",
        "send_pace", "wants_acknowledgements",
    )  # fmt: skip

    def __init__(self, guards: tuple[Guard, ...]) -> None:
        self.guards = guards
        with_records = [guard for guard in guards if guard.hints.wants_records]
        self._send_groups = group_guards(with_records, ProducerInterceptor, ON_SEND_BATCH, ON_SEND)
        self._ack_groups = group_guards(
            guards, ProducerInterceptor, ON_ACKNOWLEDGEMENT_BATCH, ON_ACKNOWLEDGEMENT, WITH_HEADERS
        )
        by_record = [guard for group in self._ack_groups if not group.by_batch for guard in group.guards]
        self._keeps_details = any(guard.hints.wants_records for guard in by_record)
        self._keeps_headers = self._keeps_details and any(
            has_override(guard.interceptor, ProducerInterceptor, WITH_HEADERS) for guard in by_record
        )
        self.needs_records = bool(self._send_groups) or self._keeps_details  # whether batches must be decompressed
        self.wants_acknowledgements = bool(self._ack_groups)
        ours = are_ours(guard.interceptor for guard in guards)
        self.send_pace, self.notify_pace = Pace(ours), Pace(ours)

    def send(self, context: Context, topic: str, partition: int, records: Records) -> Records:
        """The records after `on_send` of all interceptors; the same object if none of them changes anything."""
        count, began = len(records), time.perf_counter()
        for group in self._send_groups:
            for guard, hook in group.batch_hooks:
                batch = RecordBatch(topic, partition, records, context)
                after = guard.call(ON_SEND, call_batch_hook, hook, batch, records=len(records), place=batch)
                records = records if after is None else after
            if not group.by_batch:
                info = BatchInfo(topic, partition, context, [])
                records = edit_records(records, _edit_one_by_one(group.guards, info, records))
        self.send_pace.add(count, time.perf_counter() - began)
        return records

    def collect_details(self, records: Records) -> Details | None:
        """What to keep of a batch until it is acknowledged; None: nothing."""
        if not self._keeps_details or len(records) > MAX_DETAILED_RECORDS:
            return None
        keys, values = records.sizes()
        return Details(records.timestamps(), keys, values, records if self._keeps_headers else None)

    def notify(self, batch: AcknowledgedBatch, details: Details | None, error: Exception | None) -> None:
        """Call `on_acknowledgement` for a batch; ``details`` is what `collect_details` returned when it was sent."""
        began = time.perf_counter()
        for group in self._ack_groups:
            for guard, hook in group.batch_hooks:
                guard.call(ON_ACKNOWLEDGEMENT, hook, batch, error, records=batch.count, place=batch)
            if not group.by_batch:
                _acknowledge_records(group.guards, batch, details, error)
        self.notify_pace.add(batch.count, time.perf_counter() - began)


def _edit_one_by_one(guards: Sequence[Guard], info: BatchInfo, records: Records) -> Iterator[tuple[Record, Change]]:
    """The changed records, after `on_send` for each record."""
    journal: Journal = info.journal if info.journal is not None else []
    closed = info._replace(journal=None)
    calls = [RecordCalls(guard, ON_SEND, guard.interceptor.on_send, _check_sent, info) for guard in guards]  # type: ignore[attr-defined]
    try:
        for record in records:
            sent = record_of(ProducerRecord, info, record)
            for one in calls:
                result = one.call(sent)
                if result is None:
                    undo(journal)
                else:
                    sent = result
                    if journal:
                        journal.clear()
            change = sent.close(closed)
            if change is not None:
                yield record, change
    finally:
        for one in calls:
            one.end()


def _check_sent(result: object, record: ProducerRecord) -> None:
    """Check a record that `on_send` returned in place of ``record``."""
    if not isinstance(result, ProducerRecord):
        raise ContractTypeError(
            f"on_send() returned {type(result).__name__}: return one record; none can be dropped or added"
        )
    if (result.topic, result.partition) != (record.topic, record.partition):
        raise ContractValueError("on_send() changed the topic or partition: these cannot be changed")
    result.adopt(record)


def call_batch_hook(hook: Callable[[RecordBatch], Records], batch: RecordBatch) -> Records:
    """The result of a hook for whole batches. Raises TypeError if it is invalid."""
    records = hook(batch)
    if not isinstance(records, Records) or len(records) != len(batch.records):
        raise ContractTypeError(f"{hook.__name__}() must return as many Records as the batch has")
    return records


def _acknowledge_records(
    guards: Sequence[Guard], batch: AcknowledgedBatch, details: Details | None, error: Exception | None
) -> None:
    hooks = [(guard, getattr(guard.interceptor, WITH_HEADERS)) for guard in guards]
    records = zip(_metadata(batch, None if error else details), _headers(batch, details), strict=True)
    for index, (metadata, sent) in enumerate(records):
        headers = Headers.of(sent, None)
        record_error = error.of(index) if isinstance(error, SendError) else error
        for guard, hook in hooks:
            guard.call(ON_ACKNOWLEDGEMENT, hook, metadata, record_error, headers, place=batch)


def _headers(batch: AcknowledgedBatch, details: Details | None) -> Iterable[tuple[Header, ...]]:
    if details is None or details.records is None:
        return repeat((), batch.count)
    return (record.headers for record in details.records)


def _metadata(batch: AcknowledgedBatch, details: Details | None) -> Iterator[RecordMetadata]:
    """The metadata of each record: after an error only topic and partition (KIP-42)."""
    base, count, time = batch.base_offset, batch.count, batch.log_append_time
    unknown = array("q", [UNKNOWN]) * count
    offsets = range(base, base + count) if base >= 0 else unknown
    if details is None:
        details = Details(unknown, unknown, unknown, None)
    timestamps = details.timestamps if time < 0 else array("q", [time]) * count
    for offset, timestamp, key, value in zip(offsets, timestamps, details.key_sizes, details.value_sizes, strict=True):
        yield RecordMetadata(batch.topic, batch.partition, offset, timestamp, key, value, batch.context)
