"""Whether a response to Produce or Fetch ends with tagged fields, such as the brokers of KIP-951: nearly none does, and
each is asked.

This file runs as it is and compiled (response_tags.pxd holds the C types).
"""

from __future__ import annotations

from kafka_sidecar.codec.message import first_version
from kafka_sidecar.codec.messages.fetch import FetchableTopicResponse
from kafka_sidecar.codec.messages.produce import TopicProduceResponse
from kafka_sidecar.codec.wire import ID_SIZE

try:
    import cython
except ImportError:
    from kafka_sidecar.codec import cython_shim as cython

if not cython.compiled:
    from kafka_sidecar.codec.cursor import Cursor, cursor_at
else:
    from cython.cimports.kafka_sidecar.codec.cursor import Cursor, cursor_at  # type: ignore[no-redef]

_ID_SIZE = ID_SIZE  # for C
_PRODUCED_IDS = first_version(TopicProduceResponse, "topic_id")
_FETCHED_IDS = first_version(FetchableTopicResponse, "topic_id")


def produced_has_tags(data: bytes, at: int, end: int, version: int) -> bool:
    """Whether the Produce response data[at:end] of a flexible version, which begins with its length, ends with tags.

    Raises:
        CodecError: these bytes are no such response.
    """
    cursor = cursor_at(data, at, end, True)
    cursor.skip(8)  # length, correlation id
    cursor.skip_tags()
    for _ in range(cursor.length(4, False, "responses")):
        cursor.skip(_ID_SIZE if version >= _PRODUCED_IDS else cursor.length(2, False, "name"))
        for _ in range(cursor.length(4, False, "partition_responses")):
            cursor.skip(30)  # index int32 | error_code int16 | base_offset, log_append_time_ms, log_start_offset int64
            skip_errors(cursor)
            cursor.skip_tags()
        cursor.skip_tags()
    cursor.skip(4)  # throttle_time_ms
    return cursor.has_tags()


def fetched_has_tags(data: bytes, at: int, end: int, version: int) -> bool:
    """Whether the Fetch response data[at:end] of a flexible version, which begins with its length, ends with tags.

    Raises:
        CodecError: these bytes are no such response.
    """
    cursor = cursor_at(data, at, end, True)
    cursor.skip(8)  # length, correlation id
    cursor.skip_tags()
    cursor.skip(10)  # throttle_time_ms int32 | error_code int16 | session_id int32
    for _ in range(cursor.length(4, False, "responses")):
        cursor.skip(_ID_SIZE if version >= _FETCHED_IDS else cursor.length(2, False, "topic"))
        for _ in range(cursor.length(4, False, "partitions")):
            _skip_fetched(cursor)
        cursor.skip_tags()
    return cursor.has_tags()


def _skip_fetched(cursor: Cursor) -> None:
    # partition_index int32 | error_code int16 | high_watermark, last_stable_offset, log_start_offset int64
    cursor.skip(30)
    for _ in range(cursor.length(4, True, "aborted_transactions")):
        cursor.skip(16)
        cursor.skip_tags()
    cursor.skip(4)  # preferred_read_replica
    cursor.skip(cursor.length(4, True, "records"))
    cursor.skip_tags()


def skip_errors(cursor: Cursor) -> None:
    """Skip what a Produce response says of the records of a partition (KIP-467)."""
    for _ in range(cursor.length(4, False, "record_errors")):
        cursor.skip(4)
        cursor.skip(cursor.length(2, True, "batch_index_error_message"))
        cursor.skip_tags()
    cursor.skip(cursor.length(2, True, "error_message"))
