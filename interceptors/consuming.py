"""The interceptors of a consumer, in their order, over one batch of a Fetch response: `on_consume`.

Records may be changed or left out: what is left out is a gap, as compaction leaves it. None is added or moved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice

from kafka_sidecar.codec.records import BatchHeader, Change, Record, Records, edit_records
from kafka_sidecar.interceptors.contract import UNKNOWN, ConsumerInterceptor, Context, RecordBatch
from kafka_sidecar.interceptors.guard import Guard, GuardGroup, group_guards
from kafka_sidecar.interceptors.headers import Journal, undo
from kafka_sidecar.interceptors.producing import call_batch_hook
from kafka_sidecar.interceptors.records import BatchInfo, ConsumerRecord, ConsumerRecords, record_of

ON_CONSUME, ON_CONSUME_BATCH = "on_consume", "on_consume_batch"
MAX_RECORDS_PER_CALL = 10_000  # records in one call: a batch of a megabyte can hold millions
OnConsume = Callable[[ConsumerRecords], Iterable[ConsumerRecord]]


class FailClosedError(Exception):
    """An interceptor that hides something has failed."""


@dataclass(frozen=True, slots=True, eq=False)
class Consumers:
    """The interceptors of one topic's consumers."""

    guards: tuple[Guard, ...]
    needs_records: bool = field(init=False)  # whether any of them wants records
    fail_closed: bool = field(init=False)  # whether what they cannot look into must not be shown
    _runs: tuple[GuardGroup, ...] = field(init=False)

    def __post_init__(self) -> None:
        inside = [guard for guard in self.guards if guard.hints.wants_records]
        object.__setattr__(self, "_runs", group_guards(inside, ConsumerInterceptor, ON_CONSUME_BATCH, ON_CONSUME))
        object.__setattr__(self, "needs_records", bool(self._runs))
        hiding = (guard.hints.fail_closed for run in self._runs for guard in run.guards)
        object.__setattr__(self, "fail_closed", any(hiding))

    def consume(self, context: Context, topic: str, partition: int, header: BatchHeader, records: Records) -> Records:
        """The records as the interceptors leave them, fewer perhaps; the very same where they change nothing.

        Raises:
            NotHiddenError: nobody may be shown them.
        """
        for run in self._runs:
            if not len(records):
                break
            for guard, hook in run.batch_hooks:
                batch = RecordBatch(topic, partition, records, context)
                answer = guard.call(ON_CONSUME, call_batch_hook, hook, batch, records=len(records))
                _check_hidden(guard, answer)
                records = records if answer is None else answer
            if not run.by_batch:
                place = BatchInfo(
                    topic, partition, context, [], header.base_offset, header.leader_epoch, header.has_log_append_time
                )
                records = edit_records(records, _edit_as_lists(run.guards, place, records))
        return records


def _check_hidden(guard: Guard, answer: object) -> None:
    if answer is None and guard.hints.fail_closed:
        raise FailClosedError(f"{guard.name} has failed")


def _edit_as_lists(
    guards: Sequence[Guard], place: BatchInfo, records: Records
) -> Iterator[tuple[Record, Change | None]]:
    """What those change or leave out that get records as a list; not all at once where a batch holds very many."""
    journal: Journal = place.journal if place.journal is not None else []
    reading = iter(records)
    calls = [(guard, partial(_call_on_consume, guard.interceptor.on_consume)) for guard in guards]  # type: ignore[attr-defined]
    while some := list(islice(reading, MAX_RECORDS_PER_CALL)):
        left = ConsumerRecords([record_of(ConsumerRecord, place, record) for record in some], place.context)
        for guard, call in calls:
            answer = guard.call(ON_CONSUME, call, left, records=len(left))
            _check_hidden(guard, answer)
            if answer is None:
                undo(journal)
            else:
                left = answer
                journal.clear()
            if not left:
                break
        yield from _changes(some, left, place._replace(journal=None))


def _changes(
    records: Sequence[Record], left: ConsumerRecords, place: BatchInfo
) -> Iterator[tuple[Record, Change | None]]:
    if len(left) == len(records):  # none can be added or moved: these are all
        for record, after in zip(records, left, strict=True):
            if (change := after.close(place)) is not None:
                yield record, change
        return
    remaining = iter(left)
    following = next(remaining, None)
    for record in records:
        if following is None or following.index != record.index:
            yield record, None
            continue
        if (change := following.close(place)) is not None:
            yield record, change
        following = next(remaining, None)


def _call_on_consume(on_consume: OnConsume, records: ConsumerRecords) -> ConsumerRecords:
    answer = on_consume(records)
    if answer is records:
        return records
    given = iter(records)
    left: list[ConsumerRecord] = []
    for record in answer:
        if not isinstance(record, ConsumerRecord):
            raise TypeError(f"on_consume() gave {type(record).__name__} back among the records")
        before = next((one for one in given if _stands_for(record, one)), None)
        if before is None or (record.topic, record.partition) != (before.topic, before.partition):
            raise ValueError("on_consume() added a record, moved one, or changed their order")
        record.adopt(before)
        left.append(record)
    return ConsumerRecords(left, records.context)


def _stands_for(record: ConsumerRecord, given: ConsumerRecord) -> bool:
    """Records of a batch are known by their place: some producers give the same offset delta to several."""
    return record.offset == given.offset if record.index == UNKNOWN else record.index == given.index
