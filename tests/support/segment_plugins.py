"""A serializer and a deserializer of segments, as plug-ins."""

from __future__ import annotations

from kafka_sidecar.large_messages.segment import Segment
from kafka_sidecar.large_messages.serializers import SegmentDeserializer, SegmentSerializer


class Upper(SegmentSerializer):
    def serialize(self, topic: str, segment: Segment) -> bytes:
        return bytes(segment.payload).upper()


class Never(SegmentDeserializer):
    def deserialize(self, topic: str, value: bytes) -> Segment | None:
        return None
