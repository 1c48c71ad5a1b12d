"""The contract of segment serializers and deserializers: plug-ins with a wire format of their own.

The methods are those of li-apache-kafka-clients (`SegmentSerializer`, `SegmentDeserializer`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka_sidecar.large_messages import payload_format
from kafka_sidecar.large_messages.segment import Segment
from kafka_sidecar.plugins.registry import Kind, hooks_of


class SegmentSerializer:
    """Writes segments. One object serves all topics of an entry, and is called in threads."""

    def configure(self, configs: Mapping[str, Any]) -> None:
        """Called once, with the entry's ``segment_settings``. Raises ValueError if one is invalid."""

    def serialize(self, topic: str, segment: Segment) -> bytes:
        """The value of the segment's record. The same segment always has the same length of bytes before its payload.

        Raises:
            Exception: whatever it is, the message is rejected.
        """
        raise NotImplementedError


class SegmentDeserializer:
    """Reads segments. One object serves all topics of an entry, and is called in threads."""

    def configure(self, configs: Mapping[str, Any]) -> None:
        """Called once, with the entry's ``segment_settings``. Raises ValueError if one is invalid."""

    def deserialize(self, topic: str, value: bytes) -> Segment | None:
        """The segment that the value of a record is; None: it is an ordinary value, delivered as it is.

        Raises:
            Exception: whatever it is, the value is delivered as it is.
        """
        raise NotImplementedError


class DefaultSegmentSerializer(SegmentSerializer):
    """The format of li's class of this name."""

    def serialize(self, topic: str, segment: Segment) -> bytes:
        return payload_format.serialize(segment)


class DefaultSegmentDeserializer(SegmentDeserializer):
    """The format of li's class of this name."""

    def deserialize(self, topic: str, value: bytes) -> Segment | None:
        return payload_format.deserialize(value)


SERIALIZERS = Kind(
    "segment serializer",
    SegmentSerializer,
    "kafka_sidecar.segment_serializers",
    {"default": "kafka_sidecar.large_messages.serializers:DefaultSegmentSerializer"},
    "acme.segments:Writer",
    hooks_of(SegmentSerializer),
)
DESERIALIZERS = Kind(
    "segment deserializer",
    SegmentDeserializer,
    "kafka_sidecar.segment_deserializers",
    {"default": "kafka_sidecar.large_messages.serializers:DefaultSegmentDeserializer"},
    "acme.segments:Reader",
    hooks_of(SegmentDeserializer),
)
