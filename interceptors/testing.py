"""For authors of interceptors: run hooks on records and offsets, in a real batch and chain, without a proxy.

>>> from kafka_sidecar.interceptors.builtin.remove_header import RemoveHeader
>>> remove = RemoveHeader()
>>> remove.configure({"keys": ["internal"]})
>>> (sent,) = send(remove, [ProducerRecord("orders", 0, value=b"v", headers=[("internal", b"1"), ("kept", b"2")])])
>>> [header.key for header in sent.headers]
['kept']
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import inf
from typing import TypeVar

from kafka_sidecar.codec.records import Batch, NewRecord, Records, batches, build_batch
from kafka_sidecar.interceptors.committing import Committers
from kafka_sidecar.interceptors.consuming import NO_KEYS, Consumers, Key
from kafka_sidecar.interceptors.contract import AcknowledgedBatch, Interceptor, Offsets
from kafka_sidecar.interceptors.guard import Guard, Limits, Place
from kafka_sidecar.interceptors.producing import Producers
from kafka_sidecar.interceptors.records import BatchInfo, ConsumerRecord, ProducerRecord, record_of

R = TypeVar("R", ProducerRecord, ConsumerRecord)
Chain = Interceptor | Sequence[Interceptor]
NO_LIMITS = Limits(budget_s=inf, failures=0)


def send(interceptors: Chain, records: Sequence[ProducerRecord]) -> list[ProducerRecord]:
    """What `on_send` makes of records, sent as one batch. `on_acknowledgement` then gets each, from offset 0 on.

    Args:
        interceptors: configured ones, in the order of their chain.
        records: of one topic and partition; hooks see the context of the first.

    Raises:
        ContractError: a hook returned something invalid. What a hook raises itself is raised too.
    """
    return send_through(Producers(_guards(interceptors)), records)


def consume(interceptors: Chain, records: Sequence[ConsumerRecord]) -> list[ConsumerRecord]:
    """What `on_consume` leaves of records, read as one batch. Arguments and errors are those of `send`; and

    Raises:
        ResolveRequired: an interceptor raised `Unresolved`; await its `resolve` and call this again.
    """
    return consume_through(Consumers(_guards(interceptors)), records)


def commit(interceptors: Chain, offsets: Offsets) -> Offsets:
    """What `pre_commit` makes of offsets; `on_commit` then gets the result, as committed. Raises as `send` does."""
    committers = Committers(_guards(interceptors), offsets.max_metadata)
    left = committers.pre_commit(offsets)
    if left:
        committers.on_commit(left)
    return left


def send_through(chain: Producers, records: Sequence[ProducerRecord]) -> list[ProducerRecord]:
    """As `send`, for a chain whose guards report failures as they do in a sidecar."""
    one, batch = records[0], _batch_of(records)
    sent = chain.send(one.context, one.topic, one.partition, batch.records())
    written = AcknowledgedBatch(
        one.topic, one.partition, len(sent), one.context, one.context.clock(), base_offset=0, took_us=0
    )
    chain.notify(written, chain.collect_details(sent), None)
    return _read(ProducerRecord, sent, one, batch)


def consume_through(
    chain: Consumers, records: Sequence[ConsumerRecord], asked: Collection[Key] = NO_KEYS
) -> list[ConsumerRecord]:
    """As `consume`, for a chain whose guards report failures as they do in a sidecar.

    Raises:
        FailClosedError: consumers would not get the records, because an interceptor that hides data has failed.
        ResolveRequired: as `consume`; ``asked`` has what was resolved.
    """
    one, batch = records[0], _batch_of(records, records[0].offset)
    left = chain.consume(one.context, one.topic, one.partition, batch.header, batch.records(), asked)
    return _read(ConsumerRecord, left, one, batch)


class _Raise:
    """Reports failures by raising them."""

    def failed(self, interceptor: str, hook: str, error: BaseException, place: Place | None = None) -> None:
        raise error

    def slow(self, interceptor: str, hook: str, seconds: float, place: Place | None = None) -> None: ...

    def disabled(self, interceptor: str, failures: int, pause_s: float, client: object = None) -> None: ...


def _guards(interceptors: Chain) -> tuple[Guard, ...]:
    chain = [interceptors] if isinstance(interceptors, Interceptor) else interceptors
    return tuple(Guard(type(one).__name__, one, one.hints(), _Raise(), limits=NO_LIMITS) for one in chain)


def _batch_of(records: Sequence[ProducerRecord] | Sequence[ConsumerRecord], base_offset: int = 0) -> Batch:
    first = records[0]
    if any((record.topic, record.partition) != (first.topic, first.partition) for record in records):
        raise ValueError("a batch has records of one topic and partition: run those of others separately")
    base = min(record.timestamp for record in records)
    new = (_new_record(record, base, base_offset) for record in records)
    (batch,) = batches(build_batch(new, base_offset=base_offset, base_timestamp=base))
    return batch


def _new_record(record: ProducerRecord | ConsumerRecord, base_timestamp: int, base_offset: int) -> NewRecord:
    delta = record.offset - base_offset if isinstance(record, ConsumerRecord) else None
    return NewRecord(record.value, record.key, record.headers.to_tuple(), record.timestamp - base_timestamp, delta)


def _read(kind: type[R], records: Records, one: R, batch: Batch) -> list[R]:
    info = BatchInfo(one.topic, one.partition, one.context, None, batch.header.base_offset)
    return [record_of(kind, info, record) for record in records]
