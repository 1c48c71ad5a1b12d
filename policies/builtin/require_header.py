"""Records must have a certain header: the sample policy of KIP-940."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kafka_sidecar.plugins.settings import Settings, read_settings
from kafka_sidecar.policies.contract import MAX_REJECTIONS, Fault, Hints, RecordValidationPolicy, TopicMetadata

if TYPE_CHECKING:
    from kafka_sidecar.codec.records import Records

MESSAGE = "Topic %s requires records to contain a header with key: %s"  # the KIP's text


class RequireHeaderSettings(Settings):
    key: str | None = None
    """Key of the required header, if the topic gives none as the policy's argument."""


class RequireHeader(RecordValidationPolicy):
    """Every record has a header whose key is the policy's argument; its value may be anything, including null."""

    settings = RequireHeaderSettings()
    records_at_once = 10_000  # the loop is compiled

    def configure(self, configs: Mapping[str, Any]) -> None:
        self.settings = read_settings(RequireHeaderSettings, configs)

    def hints(self) -> Hints:
        return Hints(access_headers=True)

    def check(self, text: str) -> None:
        if not self._key(text):
            raise ValueError("no header key: write require_header:trace-id, or set key under policies:")

    def validate_batch(self, topic: TopicMetadata, records: Records) -> list[Fault]:
        key = self._key(topic.validation_policy)
        message = MESSAGE % (topic.topic, key)
        return [Fault(index, message, "no_header") for index in records.missing_header(key.encode(), MAX_REJECTIONS)]

    def _key(self, text: str) -> str:
        return text or self.settings.key or ""
