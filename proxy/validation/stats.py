"""What is remembered of rejections: counts, the last ones in full, a log line for each kind (design D12).

Never a payload: neither keys nor values nor headers of a record are kept.
"""

from __future__ import annotations

import logging
import re
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from kafka_sidecar.policies.contract import WHOLE_BATCH, TopicMetadata
from kafka_sidecar.policies.plans import PolicyFailedError, Rejection
from kafka_sidecar.proxy.telemetry.log_limiter import LogLimiter, redact

log = logging.getLogger(__name__)

MAX_SERIES = 1000  # combinations of label values; what is beyond them is counted as OTHER
OTHER = "(other)"
MAX_RECENT = 100  # rejected batches
A_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")  # Kafka's Topic.validate; a client may send anything as a name
LOGGED_EVERY_S = 10.0  # for one kind of rejection


@dataclass(frozen=True, slots=True)
class RejectedBatch:
    """One rejected batch, as the admin port shows it."""

    at: float  # seconds since the epoch
    topic: str
    partition: int
    mode: str
    policy: str
    reason: str
    message: str  # of the first record that is rejected
    index: int  # of that record; -1: the batch as a whole
    rejected_records: int
    client_id: str | None


@dataclass(slots=True)
class ValidationStats:
    """The figures of one process about validation."""

    clock: Callable[[], float]  # seconds since the epoch
    # (topic, policy, mode, reason) -> records; mode "shadow": they were let pass
    rejections: Counter[tuple[str, str, str, str]] = field(default_factory=Counter)
    failures: Counter[tuple[str, str]] = field(default_factory=Counter)  # (policy, mode) -> batches
    batches: Counter[str] = field(default_factory=Counter)  # by how deep they were looked at: "header", "contents"
    records: int = 0
    recent: deque[RejectedBatch] = field(default_factory=lambda: deque(maxlen=MAX_RECENT))
    _lines: LogLimiter = field(init=False)

    def __post_init__(self) -> None:
        self._lines = LogLimiter(LOGGED_EVERY_S, self.clock)

    def validated(self, headers: int, inflated: int, records: int) -> None:
        """Policies have looked at so many batches by their headers alone and inflated, with so many records in all."""
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
        for rejection in rejections:
            self._count(topic.topic, rejection.policy, mode, rejection.reason)
        seen = RejectedBatch(
            self.clock(), topic.topic, topic.partition, mode, first.policy, first.reason, first.message, first.index,
            len(rejections), client_id,
        )  # fmt: skip
        self.recent.append(seen)
        self._log(seen)

    def unreadable(self, topic: TopicMetadata, message: str, enforced: bool) -> None:
        """A batch is none, or cannot be read."""
        self._without_policy(topic.topic, topic.partition, "(structure)", "unreadable", message, enforced)

    def misconfigured(self, topic: str, partition: int, message: str, enforced: bool) -> None:
        """The topic's policy string means nothing here."""
        self._without_policy(topic, partition, "(configuration)", "misconfigured", message, enforced)

    def failed(self, topic: TopicMetadata, error: PolicyFailedError, enforced: bool) -> None:
        """A policy raised what no policy should."""
        self.policy_failed(error.policy, error.error, "enforce" if enforced else "shadow", topic)

    def policy_failed(
        self, policy: str, error: BaseException, mode: str = "open", topic: TopicMetadata | None = None
    ) -> None:
        """As `failed`; mode "open": the policy is configured to let records pass when it fails."""
        self.failures[policy, mode] += 1
        kind = ("", policy, type(error).__name__)
        if (left_out := self._lines.due(kind)) is not None:
            log.error(
                "policy failed",
                exc_info=redact(log, error),
                extra={"policy": policy, "mode": mode, "topic": topic.topic if topic else None, "suppressed": left_out},
            )

    def _without_policy(
        self, topic: str, partition: int, source: str, reason: str, message: str, enforced: bool
    ) -> None:
        mode = "enforce" if enforced else "shadow"
        self._count(topic, source, mode, reason)
        seen = RejectedBatch(self.clock(), topic, partition, mode, source, reason, message, WHOLE_BATCH, 0, None)
        self.recent.append(seen)
        self._log(seen)

    def _count(self, topic: str, policy: str, mode: str, reason: str) -> None:
        key = (topic if A_TOPIC.fullmatch(topic) else OTHER, policy, mode, reason)
        if key not in self.rejections and len(self.rejections) >= MAX_SERIES:
            key = (OTHER, policy, mode, OTHER)  # policies may give reasons without end
        self.rejections[key] += 1

    def _log(self, seen: RejectedBatch) -> None:
        if (left_out := self._lines.due((seen.topic, seen.policy, seen.reason, seen.mode))) is not None:
            log.warning(
                "records rejected",
                extra={
                    "topic": seen.topic,
                    "partition": seen.partition,
                    "mode": seen.mode,
                    "policy": seen.policy,
                    "reason": seen.reason,
                    "detail": seen.message,
                    "index": seen.index,
                    "rejected_records": seen.rejected_records,
                    "client_id": seen.client_id,
                    "suppressed": left_out,
                },
            )
