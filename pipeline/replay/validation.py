"""The policies of a topic applied to batches of its log, as the proxy applies them to batches of a Produce request."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from kafka_sidecar.codec.apis import ErrorCode
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.records import Batch, BatchHeader, Record, Records
from kafka_sidecar.codec.records.log_validator import explain_unreadable
from kafka_sidecar.codec.wire import NO_ID
from kafka_sidecar.pipeline.records.slices import Slice
from kafka_sidecar.pipeline.replay.job import Grouping, Job, Outcome, Row
from kafka_sidecar.policies.contract import WHOLE_BATCH
from kafka_sidecar.policies.plans import NO_FAILED_KEYS, PolicyFailedError, Rejection, ResolveRequired, Rule
from kafka_sidecar.proxy.features.validation.from_config import catalog
from kafka_sidecar.proxy.features.validation.rules import Applied, MisconfiguredError, Rules
from kafka_sidecar.proxy.runtime.performer import MAX_FETCH_S

HASH_BYTES = 8
NONE = "(none)"  # a record without the key or header that it is grouped by
NEWEST_MAGIC = 2

Resolve = Callable[[Rule, object], None]
Verdict = list[Rejection] | PolicyFailedError


class NoPolicyError(ValueError):
    """A topic has no policy to replay. The text has the remedy."""


class OnceRead:
    """A batch that is decompressed once at most, for its policies and for the keys of rejected records."""

    __slots__ = ("_limit", "_max_records", "_records", "batch", "header")

    def __init__(self, batch: Batch, limit: int, max_records: int) -> None:
        self.batch = batch
        self.header: BatchHeader = batch.header
        self._limit, self._max_records = limit, max_records
        self._records: Records | None = None

    def records(self, limit: int = 0) -> Records:
        """The records as the producer has sent them: with its timestamps, whatever the broker has set."""
        if self._records is None:
            self._records = self.batch.records(limit or self._limit, self._max_records, True)  # as_sent
        return self._records


def resolve_now(rule: Rule, key: object) -> None:
    """Fetch what a policy needs. Raises nothing, as in the proxy: a policy that still has not got it says so."""

    async def resolve() -> None:
        async with asyncio.timeout(MAX_FETCH_S):
            await rule.policy.resolve(key)

    try:
        asyncio.run(resolve())
    except (Exception, SystemExit):  # noqa: BLE001 - whatever it is, the policy fails when it is called again
        return


def open_rules(job: Job) -> Rules:
    """The policies of a job, configured. Raises ValueError: one is invalid."""
    return Rules(catalog(job.config, lambda policy, error: None), job.topic_rules(), None)


def find_applied(rules: Rules, topic: str) -> Applied:
    """The policies of a topic. Raises ValueError: it has none, or an invalid one."""
    try:
        applied = rules.of(topic, NO_ID)
    except MisconfiguredError as error:
        raise ValueError(f"{topic}: {error}") from error
    if applied is None:
        raise NoPolicyError(f"{topic} has no policy: give one with --policy, or an entry of topics: with --config")
    return applied


@dataclass(slots=True)
class Replay:
    """The policies of one topic over slices of its log."""

    job: Job
    topic: str
    applied: Applied
    resolve: Resolve = resolve_now
    now: Callable[[], float] = time.time
    _batch_time_s: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        """Let policies that compare with the time have that of the batch, not that of the replay."""
        for rule in self.applied.plan.rules:
            if hasattr(rule.policy, "clock"):
                rule.policy.clock = lambda: self._batch_time_s

    def rows(self, part: Slice, found: Iterable[Batch]) -> Iterator[Row]:
        """The rejections in a slice, then its sums. ``found``: the batches from its first one on; maybe more."""
        records = batches = size = 0
        for batch in found:
            if batch.magic == NEWEST_MAGIC:
                header = batch.header
                last = header.base_offset + header.last_offset_delta
                if last < part.first or header.is_control or not header.count:
                    continue
                if last >= part.end:
                    break
                records += header.count
                yield from self._validate(part, batch)
            else:
                records += 1  # an old message; a compressed one has others inside
                yield self._unreadable(part, batch)
            batches += 1
            size += len(batch.data)
        yield Row(
            Outcome.VALIDATED.value, part.topic, part.partition, part.first, part.end, None, None, None, 0, None, None,
            records, batches, 0, size,
        )  # fmt: skip

    def _validate(self, part: Slice, batch: Batch) -> Iterator[Row]:
        header = batch.header
        # LogAppendTime is when the broker got the batch. Otherwise only the producer has said when that was.
        self._batch_time_s = min(header.max_timestamp / 1000, self.now())
        config = self.job.config
        once = OnceRead(batch, config.validation.max_batch, config.limits.max_records)
        try:
            verdict = self._decide(part, once)
        except CodecError as error:
            why = explain_unreadable(batch, error)
            yield self._whole(part, once, "(structure)", "unreadable", why.error_code, why.message)
            return
        if isinstance(verdict, PolicyFailedError):
            text = f"the policy {verdict.policy} failed: {type(verdict.error).__name__}"
            yield self._whole(part, once, verdict.policy, "failed", ErrorCode.UNKNOWN_SERVER_ERROR, text)
        elif verdict:
            yield from self._rejected(part, once, verdict)

    def _decide(self, part: Slice, once: OnceRead) -> Verdict:
        topic = self.applied.metadata(self.topic, part.partition, NO_ID)
        failed = NO_FAILED_KEYS
        while True:
            try:
                return self.applied.plan.validate(topic, once, self.job.config.validation.max_batch, failed)
            except PolicyFailedError as error:
                return error
            except ResolveRequired as waiting:
                self.resolve(waiting.rule, waiting.key)
                failed |= {(waiting.rule.name, waiting.key)}

    def _rejected(self, part: Slice, once: OnceRead, verdict: list[Rejection]) -> Iterator[Row]:
        batches, batch_records = 1, once.header.count
        code = int(ErrorCode.INVALID_RECORD)
        for one in verdict:
            if one.index == WHOLE_BATCH:
                yield self._whole(part, once, one.policy, one.reason, code, one.message)._replace(
                    batches=batches, batch_records=batch_records
                )
            else:
                record = once.records()[one.index]
                yield Row(
                    Outcome.REJECTED.value, part.topic, part.partition, once.header.base_offset,
                    once.header.base_offset + record.offset_delta, record.timestamp, one.policy, one.reason,
                    code, one.message, group_of(record, self.job.grouping), 1, batches, batch_records, 0,
                )  # fmt: skip
            batches = batch_records = 0

    def _whole(self, part: Slice, once: OnceRead, policy: str, reason: str, code: int, message: str) -> Row:
        header = once.header
        return Row(
            Outcome.REJECTED.value, part.topic, part.partition, header.base_offset, None, header.max_timestamp, policy,
            reason, code, message, None, header.count, 1, header.count, 0,
        )  # fmt: skip

    def _unreadable(self, part: Slice, batch: Batch) -> Row:
        offset = int.from_bytes(batch.data[:8], "big")
        text = f"records of format {batch.magic} where format 2 is needed"
        return Row(
            Outcome.REJECTED.value, part.topic, part.partition, offset, None, None, "(structure)", "old_format",
            int(ErrorCode.INVALID_RECORD), text, None, 1, 1, 1, 0,
        )  # fmt: skip


def group_of(record: Record, grouping: Grouping | None) -> str | None:
    """What a rejected record is grouped by; None without grouping."""
    if grouping is None:
        return None
    if grouping.header is None:
        value = record.key
    else:
        header = record.header(grouping.header)
        value = None if header is None else header.value
    if value is None:
        return NONE
    if grouping.plain:
        return value.decode("utf-8", "backslashreplace")
    return hashlib.sha256(value).hexdigest()[: 2 * HASH_BYTES]
