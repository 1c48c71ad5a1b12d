"""A custom policy: one class with one method."""

from __future__ import annotations

from kafka_sidecar.codec.records import Record
from kafka_sidecar.policies.contract import ALL, Hints, InvalidRecordError, RecordValidationPolicy, TopicMetadata


class NoSecrets(RecordValidationPolicy):
    """No value contains a private key."""

    def hints(self) -> Hints:
        return Hints(access_value_bytes=ALL)

    def validate(self, topic: TopicMetadata, record: Record) -> None:
        if b"PRIVATE KEY" in (record.value or b""):
            raise InvalidRecordError(f"Topic {topic.topic} takes no private keys", "secret")
