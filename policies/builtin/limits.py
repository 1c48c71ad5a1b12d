"""Limits on sizes and counts that are tighter than the broker's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from pydantic import Field

from kafka_sidecar.plugins.settings import Settings, read_settings, reject_argument
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

SIZE = "Topic %s requires the %s to have at most %d bytes"
COUNT = "Topic %s requires %s to have at most %d %s"


class LimitsSettings(Settings):
    max_record_bytes: Size | None = None
    """Key, value and headers together, as they are written in the batch before it is compressed."""
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
    """No record, key, value or header is too large, no record has too many headers, no batch too many records."""

    settings = LimitsSettings()
    _sizes_in_bytes: Mapping[str, int] = {}

    def configure(self, configs: Mapping[str, Any]) -> None:
        self.settings = own = read_settings(LimitsSettings, configs)
        if own == LimitsSettings():
            raise ValueError(f"sets no limit: set one of {', '.join(LimitsSettings.model_fields)}")
        limits = {
            "key": own.max_key_bytes,
            "value": own.max_value_bytes,
            "record": own.max_record_bytes,
        }
        self._sizes_in_bytes = {part: limit for part, limit in limits.items() if limit is not None}

    def hints(self) -> Hints:
        own = self.settings
        return Hints(
            access_metadata=bool(self._sizes_in_bytes),
            access_headers=own.max_headers is not None or own.max_header_bytes is not None,
        )

    def check(self, text: str) -> None:
        reject_argument(text)

    def validate_header(self, topic: TopicMetadata, header: BatchHeader) -> Sequence[Fault]:
        most = self.settings.max_records
        if most is None or header.count <= most:
            return ()
        return [Fault(WHOLE_BATCH, COUNT % (topic.topic, "batches", most, "records"), "batch_count")]

    def validate_batch(self, topic: TopicMetadata, records: Records) -> Iterable[Fault]:
        own = self.settings
        faults = self._sizes(topic.topic, records) if self._sizes_in_bytes else []
        if own.max_headers is None and own.max_header_bytes is None:
            return faults
        most = -1 if own.max_headers is None else own.max_headers
        largest = -1 if own.max_header_bytes is None else own.max_header_bytes
        return chain(faults, _headers(topic.topic, records, most, largest))

    def _sizes(self, topic: str, records: Records) -> list[Fault]:
        limits = self._sizes_in_bytes
        return [
            Fault(index, SIZE % (topic, part, limits[part]), f"{part}_size")
            for index, part in records.larger_than(**limits, max_results=MAX_REJECTIONS)
        ]


def _headers(topic: str, records: Records, most: int, largest: int) -> Iterator[Fault]:
    """The records with more than ``most`` headers or one of more than ``largest`` bytes; -1: no limit."""
    for record in records:
        headers = record.headers
        if 0 <= most < len(headers):
            yield Fault(record.index, COUNT % (topic, "records", most, "headers"), "header_count")
        elif largest >= 0 and any(len(one.key_bytes) + len(one.value or b"") > largest for one in headers):
            yield Fault(record.index, SIZE % (topic, "headers each", largest), "header_size")
