"""Required headers, allowed headers, and patterns for their values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kafka_sidecar.plugins.regular_expressions import Matches, Pattern, compile_pattern
from kafka_sidecar.plugins.settings import Settings, read_settings, reject_argument
from kafka_sidecar.policies.contract import MAX_REJECTIONS, Fault, Hints, RecordValidationPolicy, TopicMetadata

if TYPE_CHECKING:
    from kafka_sidecar.codec.records import Records

MISSING = "Topic %s requires records to contain a header with key: %s"
FOREIGN = "Topic %s allows no record headers but those with keys: %s"
PATTERN = "Topic %s requires the value of the header %s to match: %s"


class HeadersSettings(Settings):
    required: tuple[str, ...] = ()
    """Keys of headers that every record must have."""
    allowed: tuple[str, ...] | None = None
    """Keys of the only other headers that a record may have; those in `required` and `values` are always allowed."""
    values: dict[str, Pattern] = {}  # noqa: RUF012 - pydantic copies it
    """Patterns that the whole value of a header must match, by the header's key; null matches no pattern."""


@dataclass(frozen=True, slots=True)
class _Compiled:
    """The settings with keys as bytes, as in records."""

    required: tuple[bytes, ...]
    allowed: frozenset[bytes] | None
    values: Mapping[bytes, Matches]


class Headers(RecordValidationPolicy):
    """Every record has the required headers and only allowed ones, and their values match the patterns."""

    settings = HeadersSettings()

    def configure(self, configs: Mapping[str, Any]) -> None:
        self.settings = own = read_settings(HeadersSettings, configs)
        if own == HeadersSettings():
            raise ValueError("has no effect: set required, allowed or values")
        named = {key.encode() for key in (*own.required, *own.values, *(own.allowed or ()))}
        self._compiled = _Compiled(
            tuple(key.encode() for key in own.required),
            None if own.allowed is None else frozenset(named),
            {key.encode(): compile_pattern(pattern) for key, pattern in own.values.items()},
        )

    def hints(self) -> Hints:
        return Hints(access_headers=True)

    def check(self, text: str) -> None:
        reject_argument(text)

    def validate_batch(self, topic: TopicMetadata, records: Records) -> Iterator[Fault]:
        own = self._compiled
        for key in own.required:
            message = MISSING % (topic.topic, key.decode())
            for index in records.missing_header(key, MAX_REJECTIONS):
                yield Fault(index, message, "no_header")
        if own.allowed is not None or own.values:
            yield from self._contents(topic.topic, records)

    def _contents(self, topic: str, records: Records) -> Iterator[Fault]:
        allowed, values = self._compiled.allowed, self._compiled.values
        foreign = FOREIGN % (topic, ", ".join(sorted(key.decode() for key in allowed or ())) or "none")
        for record in records:
            for header in record.headers:
                key = header.key_bytes
                if allowed is not None and key not in allowed:
                    yield Fault(record.index, foreign, "header_not_allowed")
                matches = values.get(key)
                if matches is not None and (header.value is None or not matches(header.value)):
                    name = key.decode()
                    message = PATTERN % (topic, name, self.settings.values[name])
                    yield Fault(record.index, message, "header_value")
