"""The settings of large messages in one topic."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from kafka_sidecar.large_messages.serializers import (
    DefaultSegmentDeserializer,
    SegmentDeserializer,
    SegmentSerializer,
)

OnMissing = Literal["drop", "fail"]
Compacted = Literal["refuse", "unique"]
Offsets = Literal["li", "plain", "strict-li"]
Store = Literal["log", "object"]
SegmentFormat = Literal["v3", "payload"]

MAX_SEGMENTS = 10_000  # that a message may have, whatever its headers announce


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """How large messages of a topic are split and assembled. Sizes are bytes."""

    max_message: int = 64 << 20
    segment: int | None = None  # of a slice as the broker stores it; None: as large as the topic allows
    max_batch: int | None = None  # of the topic; None: the broker is asked
    segment_format: SegmentFormat = "v3"
    serializer: SegmentSerializer | None = None  # None: the value of a slice is its payload (V3)
    deserializer: SegmentDeserializer = field(default_factory=DefaultSegmentDeserializer)  # of values without V3
    compacted: Compacted = "refuse"
    on_missing: OnMissing = "drop"
    deliver_headers: bool = False  # `_lm` as li delivers it
    timestamp_header: bool = False  # `_t`
    offsets: Offsets = "li"
    look_back: int = 1000  # offsets before the last segment in which others are searched
    store: Store = "log"
    object_above: int = 512 << 10  # larger values are stored as objects
    accept_segments: bool = False  # whatever clients write
    max_tracked: int = 500  # large messages of a partition whose offsets are remembered
