"""The last rejected batches, each with an id that its log line and its client's error messages have (design D12).

Never a payload: neither keys nor values nor headers of a record are stored.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from itertools import count, islice
from secrets import choice
from typing import Any

from kafka_sidecar.policies.plans import Rejection
from kafka_sidecar.proxy.exchanges.repeated import describe_batch
from kafka_sidecar.proxy.features.validation.rules import describe_applied
from kafka_sidecar.proxy.features.validation.stage import Origin
from kafka_sidecar.proxy.telemetry.logs import timestamp

MAX_RECENT = 1000  # rejected batches
MAX_ERRORS = 20  # rejected records that are stored of each
DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's, without letters that look like digits
PREFIX_DIGITS = 6  # of five bits

EXPLAINED = (
    "id", "timestamp", "topic", "partition", "mode", "outcome", "policy", "reason", "message", "rejected_records",
    "dead_letter_topic",
)  # fmt: skip
BY_POLICY = (
    "Correct what the application sends: `records` has index and violation of the first rejected records, and "
    "`kafka-sidecar policy test` validates records without a cluster. If the policy is wrong, change it at its "
    "`source`; with mode shadow records are allowed and still counted."
)
OUTCOMES = {"enforce": "rejected", "hide": "hidden from the consumer", "mark": "marked for the consumer"}
REMEDIES = {
    "unreadable": "The data is not a valid record batch: look at the client's library, and at what is between the "
    "client and the sidecar. A broker would have rejected it too, or stored what no consumer can read.",
    "misconfigured": "This sidecar does not accept the topic's record.validation.policy: configure the policy under "
    "policies:, or set the topic's config again.",
    "timed_out": "Producers retry. If it happens again and again: the policy is slow, or the CPU limit is low; raise "
    "validation.timeout or threads.count.",
    "policy_failed": "The policy itself has failed: the log line `policy failed` has the traceback. Until it is fixed: "
    "on_error: open for the policy, or mode: shadow for the topic.",
}


@dataclass(frozen=True, slots=True)
class RejectedBatch:
    """One rejected batch."""

    id: str
    at: float  # seconds since the epoch
    topic: str
    partition: int
    mode: str
    policy: str
    reason: str
    message: str  # of the first rejected record
    index: int  # of that record; -1: the batch as a whole
    rejected_records: int
    errors: tuple[Rejection, ...]  # the first of these records
    origin: Origin


class RecentRejections:
    """The last rejected batches. Their ids begin alike in one process, and differently in each."""

    def __init__(self) -> None:
        self.prefix = "".join(choice(DIGITS) for _ in range(PREFIX_DIGITS))
        self._numbers = count(1)
        self._batches: deque[RejectedBatch] = deque(maxlen=MAX_RECENT)

    def next_id(self) -> str:
        return f"{self.prefix}-{next(self._numbers):x}"

    def add(self, batch: RejectedBatch) -> None:
        self._batches.append(batch)

    def find(self, rejection_id: str) -> RejectedBatch | None:
        """The batch with this id, if it is one of the last."""
        return next((batch for batch in self._batches if batch.id == rejection_id), None)

    def newest(self, number: int = MAX_RECENT) -> Iterable[RejectedBatch]:
        """The last ones, newest first."""
        return islice(reversed(self._batches), number)

    # As `feature.Rejections`

    def rows(self, number: int) -> Iterable[dict[str, Any]]:
        return map(_row, self.newest(number))

    def explain(self, rejection_id: str) -> dict[str, Any] | None:
        batch = self.find(rejection_id)
        if batch is None:
            return None
        row, origin = _row(batch), batch.origin
        return {
            **{name: row[name] for name in EXPLAINED},
            "records": [asdict(error) for error in batch.errors],
            "client": asdict(origin.sender),
            "batch": describe_batch(origin.header),
            "configuration": describe_applied(origin.applied) if origin.applied is not None else None,
            "remedy": REMEDIES.get(batch.reason if not batch.errors else "", BY_POLICY),
        }


def _row(batch: RejectedBatch) -> dict[str, Any]:
    sender = batch.origin.sender
    return {
        "id": batch.id,
        "timestamp": timestamp(batch.at),
        "topic": batch.topic,
        "partition": batch.partition,
        "mode": batch.mode,
        "outcome": OUTCOMES.get(batch.mode, "allowed"),
        "policy": batch.policy,
        "reason": batch.reason,
        "message": batch.message,
        "index": batch.index,
        "rejected_records": batch.rejected_records,
        "session": sender.session,
        "client": sender.client,
        "client_id": sender.client_id,
        "client_software": sender.client_software,
        "principal": sender.principal,
        "dead_letter_topic": batch.origin.letter_topic,
    }
