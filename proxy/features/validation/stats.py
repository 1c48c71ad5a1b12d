"""Counters, recent rejected batches and rate-limited log lines of validation (design D12)."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kafka_sidecar.plugins.values import Histogram
from kafka_sidecar.policies.contract import WHOLE_BATCH, TopicMetadata, UnavailableError
from kafka_sidecar.policies.plans import PolicyFailedError, Rejection
from kafka_sidecar.proxy.features.validation.rejections import MAX_ERRORS, RecentRejections, RejectedBatch
from kafka_sidecar.proxy.features.validation.stage import UNKNOWN, Origin
from kafka_sidecar.proxy.telemetry.log_limiter import LogLimiter, redact_error
from kafka_sidecar.proxy.telemetry.metrics import Durations, Family, counter, histogram

log = logging.getLogger(__name__)

MAX_SERIES = 1000  # combinations of label values; further ones are counted as OTHER. As many for reserved topics
OTHER = "(other)"
Series = tuple[str, str, str, str]  # topic, policy, mode, reason
LOG_INTERVAL_S = 10.0  # for one topic, policy, reason and mode


@dataclass(slots=True)
class ValidationStats:
    """The counters of one process about validation."""

    clock: Callable[[], float]  # seconds since the epoch
    # (topic, policy, mode, reason) -> records; mode "shadow": they were allowed
    rejections: Counter[tuple[str, str, str, str]] = field(default_factory=Counter)
    failures: Counter[tuple[str, str]] = field(default_factory=Counter)  # (policy, mode) -> batches
    batches: Counter[str] = field(default_factory=Counter)  # by depth: "header" (without decompression), "contents"
    records: int = 0  # of these
    omitted_errors: int = 0  # record errors for which a response had no room
    recent: RecentRejections = field(default_factory=RecentRejections)
    # Whether a topic has series of its own whatever other names clients send.
    is_reserved: Callable[[str], bool] = field(default=lambda topic: False)
    lines: LogLimiter = field(init=False)

    def __post_init__(self) -> None:
        self.lines = LogLimiter(LOG_INTERVAL_S, self.clock)

    def families(self) -> Iterator[Family]:
        """The metrics of validation."""
        yield counter(
            "rejected_records", "Records that policies rejected; in mode shadow: would have rejected", self.rejections,
            "topic", "policy", "mode", "reason",
        )  # fmt: skip
        yield counter("policy_failures", "Failures of policies themselves", self.failures, "policy", "mode")
        yield counter(
            "validated_batches", "Batches validated by policies, from the header alone or with contents", self.batches,
            "depth",
        )  # fmt: skip
        yield counter("validated_records", "Records of these batches", self.records)
        yield counter(
            "omitted_record_errors",
            "Record errors beyond limits.max_record_errors, of which a response has only the number",
            self.omitted_errors,
        )

    def rejected(
        self, topic: TopicMetadata, rejections: list[Rejection], enforced: bool, origin: Origin = UNKNOWN
    ) -> str:
        """Policies reject records of a batch. Returns the id of this rejection, as the next methods do."""
        mode = _mode(enforced)
        for (policy, reason), records in Counter((one.policy, one.reason) for one in rejections).items():
            self.add(self.rejections, (topic.topic, policy, mode, reason), records)
        first, records = rejections[0], len(rejections)
        return self._log(self.store(topic.topic, topic.partition, mode, first, records, rejections, origin))

    def unreadable(self, topic: TopicMetadata, message: str, enforced: bool, origin: Origin = UNKNOWN) -> str:
        """Data is not a valid batch, or cannot be read."""
        why = Rejection(WHOLE_BATCH, message, "(structure)", "unreadable")
        return self._without_policy(topic.topic, topic.partition, why, enforced, origin)

    def misconfigured(
        self, topic: str, partitions: Sequence[int], message: str, enforced: bool, origin: Origin = UNKNOWN
    ) -> str:
        """The topic's policy string is invalid on this sidecar."""
        if not partitions:
            return ""
        why = Rejection(WHOLE_BATCH, message, "(configuration)", "misconfigured")
        return self._without_policy(topic, partitions[0], why, enforced, origin, len(partitions))

    def omitted(self, record_errors: int) -> None:
        """Record errors for which a response had no room."""
        self.omitted_errors += record_errors

    def failed(self, topic: TopicMetadata, error: PolicyFailedError, enforced: bool, origin: Origin = UNKNOWN) -> str:
        """A policy failed: it raised another error than a rejection."""
        mode = _mode(enforced)
        self.policy_failed(error.policy, error.error, mode, topic)
        if isinstance(error.error, UnavailableError):
            text, reason = f"the policy cannot decide now: {error.error}", "unavailable"
        else:
            text, reason = f"the policy failed: {type(error.error).__name__}", "policy_failed"
        why = Rejection(WHOLE_BATCH, text, error.policy, reason)
        return self.store(topic.topic, topic.partition, mode, why, 0, (), origin).id

    def timed_out(self, topic: TopicMetadata, message: str, enforced: bool, origin: Origin = UNKNOWN) -> str:
        """The policies have not decided about a batch in time."""
        why = Rejection(WHOLE_BATCH, message, "(time limit)", "timed_out")
        return self._without_policy(topic.topic, topic.partition, why, enforced, origin)

    def policy_failed(
        self, policy: str, error: BaseException, mode: str = "open", topic: TopicMetadata | None = None
    ) -> None:
        """As `failed`; mode "open": the policy is configured with on_error: open."""
        self.failures[policy, mode] += 1
        is_known = isinstance(error, UnavailableError)
        kind = ("policy failed", policy, type(error).__name__)
        if (suppressed := self.lines.due(kind)) is not None:
            log.error(
                "policy failed",
                exc_info=None if is_known else redact_error(error),
                extra={
                    "policy": policy,
                    "detail": str(error) if is_known else None,
                    "mode": mode,
                    "topic": topic.topic if topic else None,
                    "suppressed": suppressed,
                },
            )

    def _without_policy(
        self, topic: str, partition: int, why: Rejection, enforced: bool, origin: Origin, count: int = 1
    ) -> str:
        self.add(self.rejections, (topic, why.policy, _mode(enforced), why.reason), count)
        return self._log(self.store(topic, partition, _mode(enforced), why, 0, (), origin))

    def store(
        self,
        topic: str,
        partition: int,
        mode: str,
        first: Rejection,
        records: int,
        errors: Sequence[Rejection],
        origin: Origin,
    ) -> RejectedBatch:
        """Keep what is known of a rejected batch, with a new id."""
        batch = RejectedBatch(
            self.recent.next_id(), self.clock(), topic, partition, mode, first.policy, first.reason, first.message,
            first.index, records, tuple(errors[:MAX_ERRORS]), origin,
        )  # fmt: skip
        self.recent.add(batch)
        return batch

    def add(self, counts: Counter[Series], key: Series, count: int) -> None:
        """Count in a series of its own, as long as there is room for one."""
        topic, policy, mode, _ = key
        if key not in counts and len(counts) >= MAX_SERIES:
            has_room = len(counts) < 2 * MAX_SERIES and self.is_reserved(topic)
            key = key if has_room else (OTHER, policy, mode, OTHER)  # the reasons of a policy are not bounded
        counts[key] += count

    def _log(self, batch: RejectedBatch) -> str:
        kind = ("records rejected", batch.topic, batch.policy, batch.reason, batch.mode)
        if (suppressed := self.lines.due(kind)) is None:
            return batch.id
        if batch.mode == "enforce":
            log.warning("records rejected", extra=rejection_keys(batch, suppressed))
        else:
            log.warning("records would be rejected", extra=rejection_keys(batch, suppressed))
        return batch.id


def rejection_keys(batch: RejectedBatch, suppressed: int) -> dict[str, object]:
    return {
        "rejection": batch.id,
        "topic": batch.topic,
        "partition": batch.partition,
        "mode": batch.mode,
        "policy": batch.policy,
        "reason": batch.reason,
        "detail": batch.message,
        "index": batch.index,
        "rejected_records": batch.rejected_records,
        "session": batch.origin.sender.session,
        "client_id": batch.origin.sender.client_id,
        "dead_letter_topic": batch.origin.letter_topic,
        "suppressed": suppressed,
    }


def durations_of(calls: Mapping[str, Histogram]) -> Family:
    """The metric of the time that policies take, by their names."""
    taken = {name: Durations(tuple(map(int, one.counts)), one.total_us / 1e6) for name, one in calls.items()}
    return histogram("policy_call_seconds", "Time that a policy takes for a batch", taken, "policy")


def _mode(enforced: bool) -> str:
    return "enforce" if enforced else "shadow"
