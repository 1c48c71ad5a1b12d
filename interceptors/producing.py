"""The interceptors of a producer, in their order: `on_send` over a batch, `on_acknowledgement` when its answer is here.

Each gets what the one before it gave; one that fails is passed over, and what it had changed is undone (KIP-42).
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
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
from kafka_sidecar.interceptors.guard import Guard, GuardGroup, RecordCalls, group_guards, has_override
from kafka_sidecar.interceptors.headers import Headers, Journal, undo
from kafka_sidecar.interceptors.records import BatchInfo, ProducerRecord, record_of

ON_SEND, ON_ACKNOWLEDGEMENT = "on_send", "on_acknowledgement"
ON_SEND_BATCH, ON_ACKNOWLEDGEMENT_BATCH = "on_send_batch", "on_acknowledgement_batch"
WITH_HEADERS = "on_acknowledgement_with_headers"
MAX_DETAILED_RECORDS = 1_000_000  # records of a batch: what is remembered of each takes 16 bytes, a record perhaps 7


class Details(NamedTuple):
    """What is remembered of each record of a batch until it is acknowledged."""

    timestamps: Sequence[int]  # ms since 1970
    key_sizes: Sequence[int]  # bytes, -1: null
    value_sizes: Sequence[int]
    records: Records | None  # None: nobody wants to know their headers


@dataclass(frozen=True, slots=True, eq=False)
class Producers:
    """The interceptors of one topic's producers."""

    guards: tuple[Guard, ...]
    needs_records: bool = field(init=False)  # whether a batch has to be decompressed for them
    wants_acknowledgements: bool = field(init=False)  # whether any of them wants to know what became of records
    _sending: tuple[GuardGroup, ...] = field(init=False)
    _answered: tuple[GuardGroup, ...] = field(init=False)
    _details: bool = field(init=False)
    _headers: bool = field(init=False)

    def __post_init__(self) -> None:
        inside = [guard for guard in self.guards if guard.hints.wants_records]
        sending = group_guards(inside, ProducerInterceptor, ON_SEND_BATCH, ON_SEND)
        answered = group_guards(
            self.guards, ProducerInterceptor, ON_ACKNOWLEDGEMENT_BATCH, ON_ACKNOWLEDGEMENT, WITH_HEADERS
        )
        by_record = [guard for run in answered if not run.by_batch for guard in run.guards]
        details = any(guard.hints.wants_records for guard in by_record)
        headers = any(has_override(guard.interceptor, ProducerInterceptor, WITH_HEADERS) for guard in by_record)
        for name, value in (
            ("needs_records", bool(sending) or details),
            ("wants_acknowledgements", bool(answered)),
            ("_sending", sending),
            ("_answered", answered),
            ("_details", details),
            ("_headers", details and headers),
        ):
            object.__setattr__(self, name, value)

    def send(self, context: Context, topic: str, partition: int, records: Records) -> Records:
        """The records as the interceptors leave them; the very same where they change nothing."""
        for run in self._sending:
            for guard, hook in run.batch_hooks:
                batch = RecordBatch(topic, partition, records, context)
                records = guard.call(ON_SEND, call_batch_hook, hook, batch, records=len(records)) or records
            if not run.by_batch:
                place = BatchInfo(topic, partition, context, [])
                records = edit_records(records, _edit_one_by_one(run.guards, place, records))
        return records

    def collect_details(self, records: Records) -> Details | None:
        """What has to be remembered of a batch until it is acknowledged; None: nothing."""
        if not self._details or len(records) > MAX_DETAILED_RECORDS:
            return None
        keys, values = records.sizes()
        return Details(records.timestamps(), keys, values, records if self._headers else None)

    def notify(self, batch: AcknowledgedBatch, details: Details | None, error: Exception | None) -> None:
        """Tell what became of a batch; ``details``: as they were when it was sent."""
        for run in self._answered:
            for guard, hook in run.batch_hooks:
                guard.call(ON_ACKNOWLEDGEMENT, hook, batch, error, records=batch.count)
            if not run.by_batch:
                _acknowledge_records(run.guards, batch, details, error)


def _edit_one_by_one(guards: Sequence[Guard], place: BatchInfo, records: Records) -> Iterator[tuple[Record, Change]]:
    """What those change that look at records one by one."""
    journal: Journal = place.journal if place.journal is not None else []
    closed = place._replace(journal=None)
    calls = [RecordCalls(guard, ON_SEND, guard.interceptor.on_send, _check_sent) for guard in guards]  # type: ignore[attr-defined]
    try:
        for record in records:
            sent = record_of(ProducerRecord, place, record)
            for one in calls:
                answer = one.call(sent)
                if answer is None:
                    undo(journal)
                else:
                    sent = answer
                    if journal:
                        journal.clear()
            change = sent.close(closed)
            if change is not None:
                yield record, change
    finally:
        for one in calls:
            one.end()


def _check_sent(answer: object, record: ProducerRecord) -> None:
    """Let another record than the given one take its place; whatever else an interceptor gives back is its failure."""
    if not isinstance(answer, ProducerRecord):
        raise TypeError(f"on_send() gave {type(answer).__name__} back: a record cannot be left out, nor become several")
    if (answer.topic, answer.partition) != (record.topic, record.partition):
        raise ValueError("on_send() changed topic or partition: the client has chosen them")
    answer.adopt(record)


def call_batch_hook(hook: Callable[[RecordBatch], Records], batch: RecordBatch) -> Records:
    """What a hook gives back that takes a batch as a whole. Raises TypeError for what it must not."""
    records = hook(batch)
    if not isinstance(records, Records) or len(records) != len(batch.records):
        raise TypeError(f"{hook.__name__}() did not give as many records back as it got")
    return records


def _acknowledge_records(
    guards: Sequence[Guard], batch: AcknowledgedBatch, details: Details | None, error: Exception | None
) -> None:
    hooks = [(guard, getattr(guard.interceptor, WITH_HEADERS)) for guard in guards]
    told = zip(_metadata(batch, None if error else details), _headers(batch, details), strict=True)
    for index, (metadata, sent) in enumerate(told):
        headers = Headers.of(sent, None)
        own = error.of(index) if isinstance(error, SendError) else error
        for guard, hook in hooks:
            guard.call(ON_ACKNOWLEDGEMENT, hook, metadata, own, headers)


def _headers(batch: AcknowledgedBatch, details: Details | None) -> Iterable[tuple[Header, ...]]:
    if details is None or details.records is None:
        return repeat((), batch.count)
    return (record.headers for record in details.records)


def _metadata(batch: AcknowledgedBatch, details: Details | None) -> Iterator[RecordMetadata]:
    """What is known of each record: after an error no more than where it was to go (KIP-42)."""
    base, count, time = batch.base_offset, batch.count, batch.log_append_time
    unknown = array("q", [UNKNOWN]) * count
    offsets = range(base, base + count) if base >= 0 else unknown
    if details is None:
        details = Details(unknown, unknown, unknown, None)
    timestamps = details.timestamps if time < 0 else array("q", [time]) * count
    for offset, timestamp, key, value in zip(offsets, timestamps, details.key_sizes, details.value_sizes, strict=True):
        yield RecordMetadata(batch.topic, batch.partition, offset, timestamp, key, value, batch.context)
