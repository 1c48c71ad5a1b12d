"""Records must have a key, or one that matches a pattern."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from kafka_sidecar.plugins.regular_expressions import Pattern, compile_pattern
from kafka_sidecar.plugins.settings import Settings, read_settings
from kafka_sidecar.policies.contract import ALL, MAX_REJECTIONS, Fault, Hints, RecordValidationPolicy, TopicMetadata

if TYPE_CHECKING:
    from kafka_sidecar.codec.records import Records

MISSING = "Topic %s requires records to have a key"
PATTERN = "Topic %s requires record keys to match: %s"


class KeySettings(Settings):
    required: bool = True
    """Whether records without a key are rejected: those whose key is null, not those whose key is empty."""
    pattern: Pattern | None = None
    """A pattern that the whole key must match, if the topic gives none as the policy's argument."""


class Key(RecordValidationPolicy):
    """Every record has a key, which matches a pattern: the policy's argument, or the configured one."""

    settings = KeySettings()

    def configure(self, configs: Mapping[str, Any]) -> None:
        self.settings = read_settings(KeySettings, configs)

    def hints(self) -> Hints:
        return Hints(access_key_bytes=ALL, access_metadata=True)

    def check(self, text: str) -> None:
        pattern = self._pattern(text)
        if pattern:
            compile_pattern(pattern)
        elif not self.settings.required:
            raise ValueError("has no effect: set required or pattern, or write key:PATTERN")

    def validate_batch(self, topic: TopicMetadata, records: Records) -> Iterator[Fault]:
        if self.settings.required:
            message = MISSING % topic.topic
            for index in records.null_keys(MAX_REJECTIONS):
                yield Fault(index, message, "no_key")
        if pattern := self._pattern(topic.validation_policy):
            yield from _unmatched(PATTERN % (topic.topic, pattern), records, pattern)

    def _pattern(self, text: str) -> str | None:
        return text or self.settings.pattern


def _unmatched(message: str, records: Records, pattern: str) -> Iterator[Fault]:
    matches = compile_pattern(pattern)
    for record in records:
        key = record.key
        if key is not None and not matches(key):
            yield Fault(record.index, message, "key_pattern")
