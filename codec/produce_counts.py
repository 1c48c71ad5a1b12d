"""How many records a Produce request sends, by batch headers alone, and what its response says of them.

This file runs as it is and compiled (produce_counts.pxd holds the C types).
"""

from __future__ import annotations

from kafka_sidecar.codec.message import first_version
from kafka_sidecar.codec.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

try:
    import cython
except ImportError:
    from kafka_sidecar.codec import cython_shim as cython

if not cython.compiled:
    from kafka_sidecar.codec.cursor import Cursor
    from kafka_sidecar.codec.records_walk import RecordsWalk
else:
    from cython.cimports.kafka_sidecar.codec.cursor import Cursor  # type: ignore[no-redef]
    from cython.cimports.kafka_sidecar.codec.records_walk import RecordsWalk  # type: ignore[no-redef]

# key (a name, or since v13 an id of 16 bytes), partition, records, bytes, greatest timestamp (ms)
Sent = tuple[str | bytes, int, int, int, int]
# key, partition, error code, base offset, append time (ms, -1 where the client's timestamps stay)
Acknowledged = tuple[str | bytes, int, int, int, int]

_NO_TIME = -1
_PRODUCE_FLEXIBLE = ProduceRequest.declaration_.first_flexible
_PRODUCE_TRANSACTIONS = first_version(ProduceRequest, "transactional_id")
_PRODUCE_IDS = first_version(TopicProduceData, "topic_id")
_PRODUCED_FLEXIBLE = ProduceResponse.declaration_.first_flexible
_PRODUCED_TIME = first_version(PartitionProduceResponse, "log_append_time_ms")
_PRODUCED_START = first_version(PartitionProduceResponse, "log_start_offset")
_PRODUCED_ERRORS = first_version(PartitionProduceResponse, "record_errors")
_PRODUCED_IDS = first_version(TopicProduceResponse, "topic_id")


class ProduceWalk(RecordsWalk):
    """A Produce request from its length on; `rows` are `Sent`, one for each batch."""

    __slots__ = ("acks",)

    def __init__(self, version: int) -> None:
        RecordsWalk.__init__(self, version, version >= _PRODUCE_FLEXIBLE, version >= _PRODUCE_IDS, False)
        self.acks = 0

    def _head(self, cursor: Cursor) -> int:
        cursor.skip(12)
        cursor.flexible = False
        cursor.skip(cursor.length(2, True, "client_id"))
        cursor.flexible = self._flexible
        cursor.skip_tags()
        if self._version >= _PRODUCE_TRANSACTIONS:
            cursor.skip(cursor.length(2, True, "transactional_id"))
        self.acks = cursor.integer(2)
        cursor.skip(4)
        return cursor.length(4, False, "topic_data")

    def _partition(self, cursor: Cursor) -> int:
        index = cursor.integer(4)
        size = cursor.length(4, True, "records")
        self._index = index
        return size

    def _add(
        self, base: int, delta: int, count: int, size: int, timestamp: int, attributes: int, producer_id: int
    ) -> None:
        self.rows.append((self._key, self._index, count, size, timestamp))


def acknowledged(data: bytes, at: int, end: int, version: int) -> list[Acknowledged]:
    """The partitions of the Produce response data[at:end], which begins with its length.

    Raises:
        CodecError: these bytes are no such response.
    """
    flexible, by_id = version >= _PRODUCED_FLEXIBLE, version >= _PRODUCED_IDS
    cursor = Cursor(data, at, end, flexible)
    cursor.skip(8)
    cursor.skip_tags()
    found: list[Acknowledged] = []
    for _ in range(cursor.length(4, False, "responses")):
        key = cursor.topic(by_id)
        for _ in range(cursor.length(4, False, "partition_responses")):
            index = cursor.integer(4)
            error = cursor.integer(2)
            base = cursor.integer(8)
            time = cursor.integer(8) if version >= _PRODUCED_TIME else _NO_TIME
            if version >= _PRODUCED_START:
                cursor.skip(8)
            if version >= _PRODUCED_ERRORS:
                _skip_errors(cursor)
            cursor.skip_tags()
            found.append((key, index, error, base, time))
        cursor.skip_tags()
    return found


def _skip_errors(cursor: Cursor) -> None:
    for _ in range(cursor.length(4, False, "record_errors")):
        cursor.skip(4)
        cursor.skip(cursor.length(2, True, "batch_index_error_message"))
        cursor.skip_tags()
    cursor.skip(cursor.length(2, True, "error_message"))
