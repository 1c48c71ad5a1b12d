"""How many bytes and records of each topic are in a Produce request or a Fetch response, by batch headers alone.

This file runs as it is and compiled (record_sizes.pxd holds the C types).
"""

from __future__ import annotations

from kafka_sidecar.codec.batch_layout import CONTROL
from kafka_sidecar.codec.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from kafka_sidecar.codec.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafka_sidecar.codec.records_walk import Walked

try:
    import cython
except ImportError:
    from kafka_sidecar.codec import cython_shim as cython

if not cython.compiled:
    from kafka_sidecar.codec.records_walk import RecordsWalk
else:
    from cython.cimports.kafka_sidecar.codec.records_walk import RecordsWalk  # type: ignore[no-redef]

# A topic as the frame has it (its name, or since v13 its id of 16 bytes), bytes and records of its batches.
Size = tuple[str | bytes, int, int]

_SENT = Walked(
    ProduceRequest, "topic_data", TopicProduceData, PartitionProduceData, is_request=True, may_end_early=False
)
_FETCHED = Walked(FetchResponse, "responses", FetchableTopicResponse, PartitionData)
_CONTROL = CONTROL  # for C


class RecordSizes(RecordsWalk):
    """One frame after the other of a version. Control batches of responses are not counted: clients do not show them.

    `take` has the topics in the order of the frame; those of one name that follow each other are one.
    """

    __slots__ = ("_bytes", "_count", "_passes_control", "batches")

    def __init__(self, version: int, is_request: bool) -> None:
        """``is_request``: Produce requests; otherwise Fetch responses."""
        self._open(_SENT if is_request else _FETCHED, version)
        self._passes_control = not is_request
        self.restart()

    def restart(self) -> None:
        """Begin to read another frame."""
        self._restart()
        self.batches = 0  # that were read of this frame
        self._bytes = self._count = 0  # of the topic that is read, where it has no row yet

    def take(self) -> list[Size]:
        """The sizes of what was read, and begin to read another frame."""
        self._end_topic()
        rows = self.rows
        self.restart()
        return rows

    def whole(self, data: bytes, start: int, end: int) -> list[Size]:
        """The sizes of a frame that is all here; of one that cannot be read, up to there."""
        self.try_feed(data, start, end, True)
        return self.take()

    def _add(
        self, base: int, delta: int, count: int, size: int, timestamp: int, attributes: int, producer_id: int
    ) -> None:
        self.batches += 1
        if self._passes_control and attributes & _CONTROL:
            return
        self._bytes += size
        self._count += count

    def _flush(self) -> None:
        if not self._partitions_left - 1:  # that was the topic's last one
            self._end_topic()

    def _end_topic(self) -> None:
        if self._bytes:
            at = len(self.rows) - 1
            last = self.rows[at] if at >= 0 else None
            if last is not None and last[0] == self._key:
                self.rows[at] = self._key, last[1] + self._bytes, last[2] + self._count
            else:
                self.rows.append((self._key, self._bytes, self._count))
            self._bytes = self._count = 0
