"""Counters, recent rejected batches and rate-limited log lines of validation (design D12).

Never a payload: neither keys nor values nor headers of a record are stored.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from kafka_sidecar.policies.contract import WHOLE_BATCH, TopicMetadata
from kafka_sidecar.policies.plans import PolicyFailedError, Rejection
from kafka_sidecar.proxy.telemetry.log_limiter import LogLimiter, redact_error

log = logging.getLogger(__name__)

MAX_SERIES = 1000  # combinations of label values; further ones are counted as OTHER. As many for reserved topics
OTHER = "(other)"
MAX_RECENT = 100  # rejected batches
MAX_CLIENT_ID_CHARS = 249
LOG_INTERVAL_S = 10.0  # for one topic, policy, reason and mode


@dataclass(frozen=True, slots=True)
class RejectedBatch:
    """One rejected batch, as on the page /rejections."""

    at: float  # seconds since the epoch
    topic: str
    partition: int
    mode: str
    policy: str
    reason: str
    message: str  # of the first rejected record
    index: int  # of that record; -1: the batch as a whole
    rejected_records: int
    client_id: str | None


@dataclass(slots=True)
class ValidationStats:
    """The counters of one process about validation."""

    clock: Callable[[], float]  # seconds since the epoch
    # (topic, policy, mode, reason) -> records; mode "shadow": they were allowed
    rejections: Counter[tuple[str, str, str, str]] = field(default_factory=Counter)
    failures: Counter[tuple[str, str]] = field(default_factory=Counter)  # (policy, mode) -> batches
    batches: Counter[str] = field(default_factory=Counter)  # by depth: "header" (without decompression), "contents"
    records: int = 0
    omitted_errors: int = 0  # record errors for which a response had no room
    recent: deque[RejectedBatch] = field(default_factory=lambda: deque(maxlen=MAX_RECENT))
    # Whether a topic has series of its own whatever other names clients send.
    is_reserved: Callable[[str], bool] = field(default=lambda topic: False)
    _lines: LogLimiter = field(init=False)

    def __post_init__(self) -> None:
        self._lines = LogLimiter(LOG_INTERVAL_S, self.clock)

    def validated(self, headers: int, inflated: int, records: int) -> None:
        """Policies have validated batches, from the header alone or with contents, with ``records`` in all."""
        if headers:
            self.batches["header"] += headers
        if inflated:
            self.batches["contents"] += inflated
        self.records += records

    def rejected(
        self, topic: TopicMetadata, rejections: list[Rejection], enforced: bool, client_id: str | None
    ) -> None:
        """Policies reject records of a batch."""
        mode, first = "enforce" if enforced else "shadow", rejections[0]
        for (policy, reason), records in Counter((one.policy, one.reason) for one in rejections).items():
            self._count(topic.topic, policy, mode, reason, records)
        batch = RejectedBatch(
            self.clock(), topic.topic, topic.partition, mode, first.policy, first.reason, first.message, first.index,
            len(rejections), client_id[:MAX_CLIENT_ID_CHARS] if client_id is not None else None,
        )  # fmt: skip
        self.recent.append(batch)
        self._log(batch)

    def unreadable(self, topic: TopicMetadata, message: str, enforced: bool) -> None:
        """Data is not a valid batch, or cannot be read."""
        self._without_policy(topic.topic, topic.partition, "(structure)", "unreadable", message, enforced)

    def misconfigured(self, topic: str, partitions: Sequence[int], message: str, enforced: bool) -> None:
        """The topic's policy string is invalid on this sidecar."""
        if partitions:
            self._without_policy(
                topic, partitions[0], "(configuration)", "misconfigured", message, enforced, len(partitions)
            )

    def omitted(self, record_errors: int) -> None:
        """Record errors for which a response had no room."""
        self.omitted_errors += record_errors

    def failed(self, topic: TopicMetadata, error: PolicyFailedError, enforced: bool) -> None:
        """A policy failed: it raised another error than a rejection."""
        self.policy_failed(error.policy, error.error, "enforce" if enforced else "shadow", topic)

    def timed_out(self, topic: TopicMetadata, message: str, enforced: bool) -> None:
        """The policies have not decided about a batch in time."""
        self._without_policy(topic.topic, topic.partition, "(time limit)", "timed_out", message, enforced)

    def policy_failed(
        self, policy: str, error: BaseException, mode: str = "open", topic: TopicMetadata | None = None
    ) -> None:
        """As `failed`; mode "open": the policy is configured with on_error: open."""
        self.failures[policy, mode] += 1
        kind = ("", policy, type(error).__name__)
        if (suppressed := self._lines.due(kind)) is not None:
            log.error(
                "policy failed",
                exc_info=redact_error(log, error),
                extra={
                    "policy": policy,
                    "mode": mode,
                    "topic": topic.topic if topic else None,
                    "suppressed": suppressed,
                },
            )

    def _without_policy(
        self, topic: str, partition: int, policy: str, reason: str, message: str, enforced: bool, count: int = 1
    ) -> None:
        mode = "enforce" if enforced else "shadow"
        self._count(topic, policy, mode, reason, count)
        batch = RejectedBatch(self.clock(), topic, partition, mode, policy, reason, message, WHOLE_BATCH, 0, None)
        self.recent.append(batch)
        self._log(batch)

    def _count(self, topic: str, policy: str, mode: str, reason: str, count: int) -> None:
        key = (topic, policy, mode, reason)
        if key not in self.rejections and len(self.rejections) >= MAX_SERIES:
            has_room = len(self.rejections) < 2 * MAX_SERIES and self.is_reserved(topic)
            key = key if has_room else (OTHER, policy, mode, OTHER)  # the reasons of a policy are not bounded
        self.rejections[key] += count

    def _log(self, batch: RejectedBatch) -> None:
        if (suppressed := self._lines.due((batch.topic, batch.policy, batch.reason, batch.mode))) is not None:
            log.warning(
                "records rejected",
                extra={
                    "topic": batch.topic,
                    "partition": batch.partition,
                    "mode": batch.mode,
                    "policy": batch.policy,
                    "reason": batch.reason,
                    "detail": batch.message,
                    "index": batch.index,
                    "rejected_records": batch.rejected_records,
                    "client_id": batch.client_id,
                    "suppressed": suppressed,
                },
            )
