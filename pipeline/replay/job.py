"""A replay as plain values: the topics and the policies, and the rows that come of it.

These are sent to Spark's workers, so none of them has a connection or a policy that is configured.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.features.validation.rules import TopicRule


class Outcome(StrEnum):
    """What a row of the result table is about."""

    VALIDATED = "validated"  # what one task has read
    REJECTED = "rejected"  # one record, or a whole batch
    DELETED = "deleted"  # offsets that were deleted before they were read


@dataclass(frozen=True, slots=True)
class Grouping:
    """By what rejected records are grouped."""

    header: str | None = None  # name of the header; None: the record's key
    plain: bool = False  # whether its value is stored as it is, in place of its hash


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """What is the same for all tasks of a replay."""

    config: Config
    policy: str | None = None  # in place of that of the topics
    grouping: Grouping | None = None
    id: str = field(default_factory=lambda: uuid.uuid4().hex)  # a worker opens its policies once

    def topic_rules(self) -> list[TopicRule]:
        """As of the configuration file; a policy that is given applies to every topic."""
        if self.policy is not None:
            return [TopicRule("*", self.policy, "enforce", 100)]
        return [TopicRule(topic.name, topic.policy, topic.mode, topic.percent) for topic in self.config.topics]


class Row(NamedTuple):
    """One row of the result table: a rejected record or batch, or the sums of one task."""

    outcome: str
    topic: str
    partition: int
    batch_offset: int  # offset of the first record of the batch; VALIDATED, DELETED: the first offset
    offset: int | None  # of the record; None: the whole batch; VALIDATED, DELETED: the offset after the last one
    timestamp: int | None  # ms since 1970, the largest of the batch if it is rejected as a whole
    policy: str | None
    reason: str | None
    error_code: int
    message: str | None
    by: str | None  # the record's key or header: Grouping
    records: int  # that are validated, or rejected
    batches: int  # 1 in the first row of a rejected batch, else 0
    batch_records: int  # records of that batch, which are all rejected with it, likewise
    size: int  # bytes, compressed as they are in the log


# As Spark writes a schema.
SCHEMA = (
    "outcome string, topic string, partition int, batch_offset long, offset long, timestamp long, policy string, "
    "reason string, error_code int, message string, by string, records long, batches long, batch_records long, "
    "size long"
)
