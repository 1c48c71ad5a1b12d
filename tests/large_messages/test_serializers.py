"""Segment serializers as plug-ins: the built-in ones, and the contract."""

from __future__ import annotations

import pytest

from kafka_sidecar.large_messages.segment import Segment
from kafka_sidecar.large_messages.serializers import (
    DESERIALIZERS,
    SERIALIZERS,
    DefaultSegmentDeserializer,
    DefaultSegmentSerializer,
    SegmentDeserializer,
    SegmentSerializer,
)

SEGMENT = Segment(bytes(range(16)), 0, 2, 6, b"abc")


def test_the_default_ones_read_what_they_write() -> None:
    assert SERIALIZERS.by_name("default") is DefaultSegmentSerializer
    assert DESERIALIZERS.by_name("default") is DefaultSegmentDeserializer
    written = DefaultSegmentSerializer().serialize("orders", SEGMENT)
    assert DefaultSegmentDeserializer().deserialize("orders", written) == SEGMENT
    assert DefaultSegmentDeserializer().deserialize("orders", b"ordinary") is None


def test_a_class_without_the_methods_raises_when_it_is_used() -> None:
    with pytest.raises(NotImplementedError):
        SegmentSerializer().serialize("orders", SEGMENT)
    with pytest.raises(NotImplementedError):
        SegmentDeserializer().deserialize("orders", b"")


def test_a_class_of_another_kind_is_rejected() -> None:
    with pytest.raises(ValueError, match="is not a subclass of"):
        SERIALIZERS.find("kafka_sidecar.large_messages.serializers:DefaultSegmentDeserializer")
