"""Counters and rate-limited log lines of what policies say of fetched records."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from kafka_sidecar.policies.contract import TopicMetadata
from kafka_sidecar.policies.plans import PolicyFailedError, Rejection
from kafka_sidecar.proxy.features.validation.consume_stage import ConsumeReport
from kafka_sidecar.proxy.features.validation.rules import MisconfiguredError
from kafka_sidecar.proxy.features.validation.stage import Origin
from kafka_sidecar.proxy.features.validation.stats import ValidationStats, rejection_keys
from kafka_sidecar.proxy.telemetry.metrics import Family, counter

log = logging.getLogger(__name__)


@dataclass(slots=True)
class ConsumeStats(ConsumeReport):
    """The counters of one process about fetched records."""

    of_produced: ValidationStats  # has the ids, limits and lines that both have in common
    # (topic, policy, action, reason) -> records, each time that a client fetches them
    rejections: Counter[tuple[str, str, str, str]] = field(default_factory=Counter)
    batches: Counter[tuple[str, str]] = field(default_factory=Counter)  # by API and what became of them

    def families(self) -> Iterator[Family]:
        """The metrics of consumers."""
        yield counter(
            "rejected_fetched_records",
            "Fetched records that policies rejected: hidden, marked, or in mode shadow delivered as they are",
            self.rejections, "topic", "policy", "action", "reason",
        )  # fmt: skip
        yield counter(
            "validated_fetched_batches", "Batches of topics with consume, as clients fetch them", self.batches,
            "api_key", "result",
        )  # fmt: skip

    def rejected(self, topic: TopicMetadata, rejections: list[Rejection], action: str, origin: Origin) -> None:
        common, name = self.of_produced, topic.topic
        for (policy, reason), records in Counter((one.policy, one.reason) for one in rejections).items():
            common.add(self.rejections, (name, policy, action, reason), records)
        first = rejections[0]
        suppressed = common.lines.due(("fetched records rejected", name, first.policy, first.reason, action))
        if suppressed is None:  # consumers read the same again and again: only what has a line is kept
            return
        batch = common.store(name, topic.partition, action, first, len(rejections), rejections, origin)
        log.warning("fetched records rejected", extra=rejection_keys(batch, suppressed))

    def withheld(self, api: str, topic: TopicMetadata, error: PolicyFailedError | MisconfiguredError | None) -> None:
        self.batches[api, "withheld"] += 1
        if isinstance(error, PolicyFailedError):
            self.of_produced.policy_failed(error.policy, error.error, "enforce", topic)
        why = "the topic's config is not known yet" if error is None else str(error)
        if (suppressed := self._due("fetched records withheld", api, topic.topic)) is not None:
            log.warning(
                "fetched records withheld",
                extra={"api": api, "topic": topic.topic, "detail": why, "suppressed": suppressed},
            )

    def passed(self, topic: TopicMetadata, error: PolicyFailedError) -> None:
        self.of_produced.policy_failed(error.policy, error.error, "shadow", topic)

    def skipped(self, api: str, reason: str, topic: str) -> None:
        self.batches[api, reason] += 1
        if (suppressed := self._due("fetched batch not validated", api, topic, reason)) is not None:
            log.warning(
                "fetched batch not validated",
                extra={"api": api, "reason": reason, "topic": topic, "suppressed": suppressed},
            )

    def hidden(self, api: str, reason: str, topic: str) -> None:
        self.batches[api, f"hidden_{reason}"] += 1
        if (suppressed := self._due("fetched batch hidden", api, topic, reason)) is not None:
            log.warning(
                "fetched batch hidden",
                extra={"api": api, "reason": reason, "topic": topic, "suppressed": suppressed},
            )

    def _due(self, *kind: str) -> int | None:
        return self.of_produced.lines.due(kind)
