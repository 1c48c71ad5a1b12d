"""The interceptors of a consumer, in order: `on_consume` for a batch of a Fetch response.

Records can be changed or dropped, not added or moved. A dropped record leaves a gap in the offsets, as compaction does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any

from kafka_sidecar.codec.records import BatchHeader, Change, Record, Records, edit_records
from kafka_sidecar.interceptors.contract import UNKNOWN, ConsumerInterceptor, Context, RecordBatch, Unresolved
from kafka_sidecar.interceptors.guard import Guard, ResolveRequired, group_guards
from kafka_sidecar.interceptors.headers import Journal, undo
from kafka_sidecar.interceptors.producing import call_batch_hook
from kafka_sidecar.interceptors.records import BatchInfo, ConsumerRecord, ConsumerRecords, record_of
from kafka_sidecar.plugins.pace import Pace, are_ours
from kafka_sidecar.plugins.violations import ContractTypeError, ContractValueError

ON_CONSUME, ON_CONSUME_BATCH = "on_consume", "on_consume_batch"
MAX_RECORDS_PER_CALL = 10_000  # a compressed batch of a megabyte can hold millions
MAX_RESOLVES = 100  # for one partition of a response
Key = tuple[str, object]  # name of the interceptor, and what it has asked for
NO_KEYS: Collection[Key] = frozenset()
OnConsume = Callable[[ConsumerRecords], Iterable[ConsumerRecord]]


class FailClosedError(Exception):
    """An interceptor with the hint ``fail_closed`` has failed: the records must not reach the consumer."""


class Consumers:
    """The interceptors of one topic's consumers, and how long they take. All else is immutable."""

    __slots__ = ("_groups", "fail_closed", "guards", "needs_records", "pace")

    def __init__(self, guards: tuple[Guard, ...]) -> None:
        self.guards = guards
        with_records = [guard for guard in guards if guard.hints.wants_records]
        self._groups = group_guards(with_records, ConsumerInterceptor, ON_CONSUME_BATCH, ON_CONSUME)
        self.needs_records = bool(self._groups)
        self.pace = Pace(are_ours(guard.interceptor for guard in guards))
        # Whether batches that cannot be intercepted must not reach consumers.
        self.fail_closed = any(guard.hints.fail_closed for group in self._groups for guard in group.guards)

    def consume(
        self,
        context: Context,
        topic: str,
        partition: int,
        header: BatchHeader,
        records: Records,
        asked: Collection[Key] = NO_KEYS,
    ) -> Records:
        """The records after `on_consume` of all interceptors, some perhaps dropped; the same object if nothing changes.

        ``asked``: keys that have been resolved, or cannot be; an interceptor that raises `Unresolved` for one has
        failed.

        Raises:
            FailClosedError: the records must not reach the consumer.
            ResolveRequired: an interceptor raised `Unresolved`.
        """
        count, began = len(records), time.perf_counter()
        try:
            return self._consume(context, topic, partition, header, records, asked)
        finally:
            self.pace.add(count, time.perf_counter() - began)

    def _consume(
        self,
        context: Context,
        topic: str,
        partition: int,
        header: BatchHeader,
        records: Records,
        asked: Collection[Key],
    ) -> Records:
        for group in self._groups:
            if not len(records):
                break
            for guard, hook in group.batch_hooks:
                batch = RecordBatch(topic, partition, records, context)
                call = _may_wait(guard, asked, call_batch_hook)
                result = guard.call(ON_CONSUME, call, hook, batch, records=len(records), place=batch)
                _check_fail_closed(guard, result)
                records = records if result is None else result
            if not group.by_batch:
                info = BatchInfo(
                    topic, partition, context, [], header.base_offset, header.leader_epoch, header.has_log_append_time
                )
                records = edit_records(records, _edit_as_lists(group.guards, info, records, asked))
        return records


def _may_wait(guard: Guard, asked: Collection[Key], function: Callable[..., Any]) -> Callable[..., Any]:
    """A call in which the interceptor may raise `Unresolved`."""

    def call(*args: Any) -> Any:
        try:
            return function(*args)
        except Unresolved as error:
            if len(asked) >= MAX_RESOLVES or (guard.name, error.key) in asked:
                raise
            raise ResolveRequired(guard.name, guard.interceptor, error.key) from error

    return call


def _check_fail_closed(guard: Guard, result: object) -> None:
    if result is None and guard.hints.fail_closed:
        raise FailClosedError(f"{guard.name} has failed")


def _edit_as_lists(
    guards: Sequence[Guard], info: BatchInfo, records: Records, asked: Collection[Key]
) -> Iterator[tuple[Record, Change | None]]:
    """The changed and dropped (None) records, after `on_consume` for lists of at most `MAX_RECORDS_PER_CALL`."""
    journal: Journal = info.journal if info.journal is not None else []
    reading = iter(records)
    calls = [
        (guard, _may_wait(guard, asked, partial(_call_on_consume, guard.interceptor.on_consume)))  # type: ignore[attr-defined]
        for guard in guards
    ]
    while some := list(islice(reading, MAX_RECORDS_PER_CALL)):
        left = ConsumerRecords([record_of(ConsumerRecord, info, record) for record in some], info.context)
        for guard, call in calls:
            result = guard.call(ON_CONSUME, call, left, records=len(left), place=info)
            _check_fail_closed(guard, result)
            if result is None:
                undo(journal)
            else:
                left = result
                journal.clear()
            if not left:
                break
        yield from _changes(some, left, info._replace(journal=None))


def _changes(
    records: Sequence[Record], left: ConsumerRecords, info: BatchInfo
) -> Iterator[tuple[Record, Change | None]]:
    if len(left) == len(records):  # none can be added or moved: none is dropped
        for record, after in zip(records, left, strict=True):
            if (change := after.close(info)) is not None:
                yield record, change
        return
    remaining = iter(left)
    following = next(remaining, None)
    for record in records:
        if following is None or following.index != record.index:
            yield record, None
            continue
        if (change := following.close(info)) is not None:
            yield record, change
        following = next(remaining, None)


def _call_on_consume(on_consume: OnConsume, records: ConsumerRecords) -> ConsumerRecords:
    result = on_consume(records)
    if result is records:
        return records
    given = iter(records)
    left: list[ConsumerRecord] = []
    for record in result:
        if not isinstance(record, ConsumerRecord):
            raise ContractTypeError(f"on_consume() returned {type(record).__name__}: return ConsumerRecord objects")
        before = next((one for one in given if _is_same_record(record, one)), None)
        if before is None or (record.topic, record.partition) != (before.topic, before.partition):
            raise ContractValueError("on_consume() added a record, moved one, or changed their order")
        record.adopt(before)
        left.append(record)
    return ConsumerRecords(left, records.context)


def _is_same_record(record: ConsumerRecord, given: ConsumerRecord) -> bool:
    """Compares the index in the batch: some producers give several records the same offset delta."""
    return record.offset == given.offset if record.index == UNKNOWN else record.index == given.index
