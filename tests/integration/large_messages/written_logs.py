"""Logs with large messages, written to a broker past the sidecar."""

from __future__ import annotations

from integration.front import Front
from integration.validation.wire import Wire
from support.large_logs import Log

PRODUCE = 12  # the newest version that names topics


def write(large: Front, topic: str, log: Log, partition: int = 0) -> str:
    """Append the batches of a log to that of a partition, at the same offsets; returns the topic."""
    with Wire(large.cluster.direct) as wire:
        for at, data in enumerate(log.batches):
            answer = wire.produce(PRODUCE, {topic: {partition: bytes(8) + data[8:]}})[topic, partition]
            assert answer.code == 0, (at, answer)
            assert answer.base_offset == int.from_bytes(data[:8], "big")
    return topic


def topic_id(large: Front, topic: str) -> bytes:
    """The id of a topic, which pointers to slices have."""
    with Wire(large.cluster.direct) as wire:
        return wire.ids([topic])[topic]
