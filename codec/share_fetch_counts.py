"""What a ShareFetch response delivers, by batch headers alone (KIP-932).

A response has whole batches, and after them the ranges of offsets that the member has acquired; only these are its.

This file runs as it is and compiled (share_fetch_counts.pxd holds the C types).
"""

from __future__ import annotations

from kafka_sidecar.codec.batch_layout import CONTROL
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.message import first_version
from kafka_sidecar.codec.messages.share_fetch import ShareFetchResponse

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

# topic id, partition, timestamp, records, bytes, first offset, last offset
SharedBatch = tuple[str | bytes, int, int, int, int, int, int]
# topic id, partition, first offset, last offset, how often they were delivered, this time included
Acquired = tuple[str | bytes, int, int, int, int]

_CONTROL = CONTROL
_MAX_OFFSET = 1 << 62
_ACQUIRED_BYTES = 18  # first and last offset, delivery count
_LOCK_TIMEOUT = first_version(ShareFetchResponse, "acquisition_lock_timeout_ms")


class ShareFetchWalk(RecordsWalk):
    """A ShareFetch response from its length on; `rows` are `SharedBatch`, without control batches."""

    __slots__ = ("_refuses", "acquired", "error_code", "refused")

    def __init__(self, version: int) -> None:
        self._open(version, True, True, True)
        self.error_code = 0
        self.acquired: list[Acquired] = []
        self.refused: set[tuple[str | bytes, int]] = set()
        """Partitions of which the broker has not taken the acknowledgements in the request."""
        self._refuses = False

    def _head(self, cursor: Cursor) -> int:
        cursor.skip(8)
        cursor.skip_tags()
        cursor.skip(4)
        error_code = cursor.integer(2)
        cursor.skip(cursor.length(2, True, "error_message"))
        if self._version >= _LOCK_TIMEOUT:
            cursor.skip(4)
        count = cursor.length(4, False, "responses")
        self.error_code = error_code
        return count

    def _partition(self, cursor: Cursor) -> int:
        index = cursor.integer(4)
        cursor.skip(2)
        cursor.skip(cursor.length(2, True, "error_message"))
        refuses = cursor.integer(2) != 0
        cursor.skip(cursor.length(2, True, "acknowledge_error_message"))
        cursor.skip(8)
        cursor.skip_tags()
        size = cursor.length(4, True, "records")
        self._index = index
        self._refuses = refuses
        return size

    def _add(
        self, base: int, delta: int, count: int, size: int, timestamp: int, attributes: int, producer_id: int
    ) -> None:
        if base < 0 or base > _MAX_OFFSET:
            raise CodecError(f"a batch at offset {base}")
        if not attributes & _CONTROL:
            self.rows.append((self._key, self._index, timestamp, count, size, base, base + delta))

    def _after_records(self, cursor: Cursor) -> None:
        count = cursor.length(4, False, "acquired_records")
        found = []
        for _ in range(count):
            if self._reads_batches:
                first = cursor.integer(8)
                last = cursor.integer(8)
                found.append((self._key, self._index, first, last, cursor.integer(2)))
            else:
                cursor.skip(_ACQUIRED_BYTES)
            cursor.skip_tags()
        cursor.skip_tags()
        self.acquired += found
        if self._refuses and self._reads_batches:
            self.refused.add((self._key, self._index))
