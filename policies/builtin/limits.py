"""Limits on sizes and counts, tighter than the broker's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from pydantic import Field

from kafka_sidecar.plugins.settings import Settings, at_most, read_settings, reject_argument
from kafka_sidecar.plugins.units import Size
from kafka_sidecar.policies.contract import (
    MAX_REJECTIONS,
    WHOLE_BATCH,
    Fault,
    Hints,
    RecordValidationPolicy,
    TopicMetadata,
)

if TYPE_CHECKING:
    from kafka_sidecar.codec.records import BatchHeader, Records


class LimitsSettings(Settings):
    max_record_bytes: Size | None = None
    """Key, value and headers of a record together, encoded and before compression."""
    max_key_bytes: Size | None = None
    """The key."""
    max_value_bytes: Size | None = None
    """The value."""
    max_header_bytes: Size | None = None
    """Key and value of each header."""
    max_headers: int | None = Field(default=None, ge=0)
    """How many headers a record may have."""
    max_records: int | None = Field(default=None, ge=0)
    """How many records a batch may have."""


class Limits(RecordValidationPolicy):
    """Records, keys, values and headers are not too large, and there are not too many headers or records."""

    settings = LimitsSettings()
    _max_bytes: Mapping[str, int] = {}

    def configure(self, configs: Mapping[str, Any]) -> None:
        self.settings = own = read_settings(LimitsSettings, configs)
        if own == LimitsSettings():
            raise ValueError(f"has no effect: set one of {', '.join(LimitsSettings.model_fields)}")
        limits = {
            "key": own.max_key_bytes,
            "value": own.max_value_bytes,
            "record": own.max_record_bytes,
        }
        self._max_bytes = {part: limit for part, limit in limits.items() if limit is not None}

    def hints(self) -> Hints:
        own = self.settings
        return Hints(
            access_metadata=bool(self._max_bytes),
            access_headers=own.max_headers is not None or own.max_header_bytes is not None,
        )

    def check(self, text: str) -> None:
        reject_argument(text)

    def validate_header(self, topic: TopicMetadata, header: BatchHeader) -> Sequence[Fault]:
        max_records = self.settings.max_records
        if max_records is None or header.count <= max_records:
            return ()
        return [Fault(WHOLE_BATCH, _requires(topic.topic, at_most("batches", max_records, "records")), "batch_count")]

    def validate_batch(self, topic: TopicMetadata, records: Records) -> Iterable[Fault]:
        own = self.settings
        faults = self._sizes(topic.topic, records) if self._max_bytes else []
        if own.max_headers is None and own.max_header_bytes is None:
            return faults
        return chain(faults, _headers(topic.topic, records, own.max_headers, own.max_header_bytes))

    def _sizes(self, topic: str, records: Records) -> list[Fault]:
        limits = self._max_bytes
        return [
            Fault(index, _requires(topic, at_most(f"the {part}", limits[part], "bytes")), f"{part}_size")
            for index, part in records.larger_than(**limits, max_results=MAX_REJECTIONS)
        ]


def _headers(topic: str, records: Records, max_headers: int | None, max_bytes: int | None) -> Iterator[Fault]:
    """Faults of records with too many headers, or one that is too large."""
    for record in records:
        headers = record.headers
        if max_headers is not None and len(headers) > max_headers:
            yield Fault(record.index, _requires(topic, at_most("records", max_headers, "headers")), "header_count")
        elif max_bytes is not None and any(len(one.key_bytes) + len(one.value or b"") > max_bytes for one in headers):
            yield Fault(record.index, _requires(topic, at_most("the headers each", max_bytes, "bytes")), "header_size")


def _requires(topic: str, what: str) -> str:
    return f"Topic {topic} requires {what}"
