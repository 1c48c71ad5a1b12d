"""A policy that cannot decide while what it asks is down: as long as a file is there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kafka_sidecar.codec.records import Record
from kafka_sidecar.policies.contract import (
    ALL,
    Hints,
    InvalidRecordError,
    RecordValidationPolicy,
    TopicMetadata,
    UnavailableError,
)


class Outage(RecordValidationPolicy):
    """Rejects values that begin with "bad", as soon as it can."""

    def configure(self, configs: Mapping[str, Any]) -> None:
        self._is_down = Path(configs["file"])

    def hints(self) -> Hints:
        return Hints(access_value_bytes=ALL)

    def validate(self, topic: TopicMetadata, record: Record) -> None:
        if self._is_down.exists():
            raise UnavailableError("the registry does not answer")
        if (record.value or b"").startswith(b"bad"):
            raise InvalidRecordError("the value is bad", "bad")
