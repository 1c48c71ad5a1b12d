"""What a replay has done so far: numbers, and the reasons of what was not accepted."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from kafka_sidecar.dead_letters.letters import Letter
from kafka_sidecar.proxy.cli.dead_letters.producer import Refusal

MAX_ROWS = 200
OTHERS = "(others)"
NUMBER = re.compile(r"\d+")
ACCEPTED, WOULD_BE_SENT, WOULD_BE_ACCEPTED = "accepted", "would be sent", "would be accepted"
FINE = (ACCEPTED, WOULD_BE_SENT, WOULD_BE_ACCEPTED)


class Row(NamedTuple):
    """What letters are counted by."""

    topic: str
    policy: str  # that has rejected the record at first
    reason: str
    outcome: str  # "accepted", or Kafka's name of the error
    message: str  # of the error; numbers in it are N


@dataclass(slots=True)
class Tally:
    """Of one command, or of one task."""

    read: int = 0  # records of the dead letter topic
    bytes: int = 0  # that were accepted
    passed_over: int = 0  # letters that are not meant, or were replayed before
    not_letters: Counter[str] = field(default_factory=Counter)  # by what is missing
    rows: Counter[Row] = field(default_factory=Counter)

    @property
    def sent(self) -> int:
        """Those that were accepted; in a dry run those that would be sent."""
        return sum(count for row, count in self.rows.items() if row.outcome in FINE)

    @property
    def refused(self) -> int:
        return self.rows.total() - self.sent

    @property
    def has_refused(self) -> bool:
        return self.refused > 0

    def count(self, letter: Letter, refusal: Refusal | None, size: int, outcome: str) -> None:
        """One letter was sent, or would be, as ``outcome`` says where it was not refused."""
        why = letter.reasons
        if refusal is None:
            row = Row(why.topic, why.policy, why.reason, outcome, "")
            self.bytes += size
        else:
            row = Row(why.topic, why.policy, why.reason, refusal.error, NUMBER.sub("N", refusal.message))
        if row not in self.rows and len(self.rows) >= MAX_ROWS:
            row = Row(OTHERS, OTHERS, OTHERS, row.outcome, "")
        self.rows[row] += 1

    def add(self, other: Tally) -> None:
        self.read += other.read
        self.bytes += other.bytes
        self.passed_over += other.passed_over
        self.not_letters.update(other.not_letters)
        self.rows.update(other.rows)
