"""A serializer and a deserializer of segments, and an interceptor that writes some, as plug-ins."""

from __future__ import annotations

from kafka_sidecar.interceptors.contract import ProducerInterceptor
from kafka_sidecar.interceptors.records import ProducerRecord
from kafka_sidecar.large_messages.lm_header import V3, LmHeader
from kafka_sidecar.large_messages.segment import Segment
from kafka_sidecar.large_messages.serializers import SegmentDeserializer, SegmentSerializer


class Upper(SegmentSerializer):
    def serialize(self, topic: str, segment: Segment) -> bytes:
        return bytes(segment.payload).upper()


class Never(SegmentDeserializer):
    def deserialize(self, topic: str, value: bytes) -> Segment | None:
        return None


class AddsSegments(ProducerInterceptor):
    """Makes each record the first segment of two."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        record.headers.add("_lm", LmHeader(V3, bytes(range(16)), 0, 2, 14).encode())
        return record
