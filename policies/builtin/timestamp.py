"""Timestamps must not be too old, nor too far ahead of the clock."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pydantic import Field

from kafka_sidecar.plugins.settings import Settings, read_settings, reject_argument
from kafka_sidecar.plugins.units import Milliseconds
from kafka_sidecar.policies.contract import Fault, Hints, RecordValidationPolicy, TopicMetadata

if TYPE_CHECKING:
    from kafka_sidecar.codec.records import Records

MISSING = "Topic %s requires records to have a timestamp"
OLD = "Topic %s requires record timestamps at most %d ms before the sidecar's clock"
AHEAD = "Topic %s requires record timestamps at most %d ms after the sidecar's clock"
NO_TIMESTAMP = -1


class TimestampSettings(Settings):
    before_max: Milliseconds | None = None
    """How old a timestamp may be. Kafka: `message.timestamp.before.max.ms`."""
    after_max: Milliseconds | None = Field(default="1h", validate_default=True)
    """How far ahead of the clock a timestamp may be. Kafka: `message.timestamp.after.max.ms`."""
    required: bool = False
    """Whether records without a timestamp (-1) are rejected."""


class Timestamp(RecordValidationPolicy):
    """The timestamp that the producer set is within a window around the sidecar's clock."""

    settings = TimestampSettings()

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.clock = clock  # seconds since 1970; `pipeline replay-policy` replaces it

    def configure(self, configs: Mapping[str, Any]) -> None:
        self.settings = own = read_settings(TimestampSettings, configs)
        if own.before_max is None and own.after_max is None and not own.required:
            raise ValueError("has no effect: set before_max, after_max or required")

    def hints(self) -> Hints:
        return Hints(access_metadata=True)

    def check(self, text: str) -> None:
        reject_argument(text)

    def validate_batch(self, topic: TopicMetadata, records: Records) -> Iterator[Fault]:
        own, now = self.settings, int(self.clock() * 1000)
        earliest = None if own.before_max is None else now - own.before_max
        latest = None if own.after_max is None else now + own.after_max
        for record in records:
            timestamp = record.timestamp
            if timestamp == NO_TIMESTAMP:
                if own.required:
                    yield Fault(record.index, MISSING % topic.topic, "no_timestamp")
            elif earliest is not None and timestamp < earliest:
                yield Fault(record.index, OLD % (topic.topic, own.before_max), "timestamp_too_old")
            elif latest is not None and timestamp > latest:
                yield Fault(record.index, AHEAD % (topic.topic, own.after_max), "timestamp_ahead")
