"""How many records a response to Fetch or ShareFetch (KIP-932) delivers, by batch headers alone.

A ShareFetch response has whole batches, and after them the ranges of offsets that the member has acquired; only these
are its.

This file runs as it is and compiled (fetch_counts.pxd holds the C types).
"""

from __future__ import annotations

from kafka_sidecar.codec.batch_layout import CONTROL, TRANSACTIONAL
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.message import first_version
from kafka_sidecar.codec.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from kafka_sidecar.codec.messages.share_fetch import ShareFetchResponse

try:
    import cython
except ImportError:
    from kafka_sidecar.codec import cython_shim as cython

if not cython.compiled:
    from kafka_sidecar.codec.cursor import Cursor
    from kafka_sidecar.codec.fetch_positions import Offsets
    from kafka_sidecar.codec.records_walk import RecordsWalk
else:
    from cython.cimports.kafka_sidecar.codec.cursor import Cursor  # type: ignore[no-redef]
    from cython.cimports.kafka_sidecar.codec.fetch_positions import Offsets  # type: ignore[no-redef]
    from cython.cimports.kafka_sidecar.codec.records_walk import RecordsWalk  # type: ignore[no-redef]

MAX_OFFSET = 1 << 62
LATENCY_PRECISION = 50  # batches can be one row if their latencies differ by less than one in so many
_TRANSACTIONAL, _CONTROL, _MAX_OFFSET, _PRECISION = TRANSACTIONAL, CONTROL, MAX_OFFSET, LATENCY_PRECISION  # for C

_FLEXIBLE = FetchResponse.declaration_.first_flexible
_SESSIONS = first_version(FetchResponse, "session_id")
_THROTTLE = first_version(FetchResponse, "throttle_time_ms")
_STABLE = 4  # the last stable offset and the aborted transactions; the declarations begin there
_RESPONSE_START_OFFSET = first_version(PartitionData, "log_start_offset")
_REPLICAS = first_version(PartitionData, "preferred_read_replica")
_RESPONSE_IDS = first_version(FetchableTopicResponse, "topic_id")
_ACQUIRED_BYTES = 18  # first and last offset, delivery count
_LOCK_TIMEOUT = first_version(ShareFetchResponse, "acquisition_lock_timeout_ms")

# topic id, partition, timestamp, records, bytes, first offset, last offset
SharedBatch = tuple[str | bytes, int, int, int, int, int, int]
# topic id, partition, first offset, last offset, how often they were delivered, this time included
Acquired = tuple[str | bytes, int, int, int, int]


class BatchRun:
    """Batches of a Fetch response that are counted as one."""

    __slots__ = (
        "aborted",
        "count",
        "first",
        "hidden",
        "index",
        "key",
        "last",
        "latency_s",
        "owner",
        "size",
        "timestamp",
    )

    key: str | bytes  # the topic's name, or since v13 its id of 16 bytes
    index: int
    timestamp: int  # the greatest, ms since 1970
    count: int  # records, also of aborted transactions
    size: int  # bytes
    first: int  # offset
    last: int
    aborted: int  # records of aborted transactions
    # For who counts it later.
    owner: object
    hidden: int  # records that an interceptor does not show
    latency_s: float


class FetchWalk(RecordsWalk):
    """A Fetch response from its length on; `rows` are `BatchRun`: what the client that asked for it reads.

    What is before the offset that it asked for is cut off, control batches are not shown, and records of aborted
    transactions only to clients that read uncommitted ones. Batches that follow each other are one row if they are in
    the same bucket of event time, with the same latency.
    """

    __slots__ = (
        "_aborted", "_aborting", "_bucket_ms", "_committed_only", "_now_ms", "_offset", "_offsets", "_row_aborted",
        "_row_bucket", "_row_count", "_row_dense", "_row_first", "_row_last", "_row_max", "_row_min", "_row_size",
        "session_id",
    )  # fmt: skip

    def __init__(
        self,
        version: int,
        offsets: Offsets,
        committed_only: bool = False,
        bucket_ms: int = 0,
        now_ms: float = 0,
    ) -> None:
        """
        Args:
            offsets: that the client has asked for.
            committed_only: whether it reads committed records only.
            bucket_ms: length of the buckets of event time; 0: a row for each batch.
            now_ms: the time of delivery.
        """
        self._aborting: set[int] = set()  # producers in whose aborted transaction the current batch may be
        self._open(version, version >= _FLEXIBLE, version >= _RESPONSE_IDS, True)
        self._begin(offsets, committed_only, bucket_ms, now_ms)

    def restart(self, offsets: Offsets, committed_only: bool, bucket_ms: int, now_ms: float) -> None:
        """Begin to read another response of the same version."""
        self._restart()
        self._begin(offsets, committed_only, bucket_ms, now_ms)

    def _begin(self, offsets: Offsets, committed_only: bool, bucket_ms: int, now_ms: float) -> None:
        self.session_id = 0
        self._offsets = offsets
        self._committed_only = committed_only
        self._bucket_ms = bucket_ms
        self._now_ms = now_ms
        self._offset = 0
        self._aborted: list[tuple[int, int]] | None = (
            None  # (first offset, producer), ascending, of the current partition
        )
        if self._aborting:
            self._aborting = set()
        self._row_count = self._row_size = self._row_first = self._row_last = self._row_aborted = 0
        self._row_min = self._row_max = self._row_bucket = 0
        self._row_dense = False

    def _head(self, cursor: Cursor) -> int:
        cursor.skip(8)
        cursor.skip_tags()
        if self._version >= _THROTTLE:
            cursor.skip(4)
        if self._version >= _SESSIONS:
            cursor.skip(2)
            self.session_id = cursor.integer(4)
        return cursor.length(4, False, "responses")

    def _partition(self, cursor: Cursor) -> int:
        index = cursor.integer(4)
        cursor.skip(10)
        aborted = None
        if self._version >= _STABLE:
            cursor.skip(16 if self._version >= _RESPONSE_START_OFFSET else 8)
            aborted = self._aborted_in(cursor)
        if self._version >= _REPLICAS:
            cursor.skip(4)
        size = cursor.length(4, True, "records")
        self._index = index
        self._aborted = aborted
        if self._aborting:
            self._aborting = set()
        self._offset = self._offsets.get(self._key, index) if size > 0 else 0
        return size

    def _aborted_in(self, cursor: Cursor) -> list[tuple[int, int]] | None:
        count = cursor.length(4, True, "aborted_transactions")
        if count <= 0:
            return None
        if not self._committed_only:
            for _ in range(count):
                cursor.skip(16)
                cursor.skip_tags()
            return None
        found = []
        for _ in range(count):
            producer_id = cursor.integer(8)
            found.append((cursor.integer(8), producer_id))
            cursor.skip_tags()
        return sorted(found)

    def _add(
        self, base: int, delta: int, count: int, size: int, timestamp: int, attributes: int, producer_id: int
    ) -> None:
        if base < 0 or base > _MAX_OFFSET:
            raise CodecError(f"a batch at offset {base}")
        first, last = base, base + delta
        while self._aborted and self._aborted[0][0] <= last:
            self._aborting.add(self._aborted.pop(0)[1])
        if attributes & _CONTROL:
            self._aborting.discard(producer_id)
            return
        if last < self._offset:
            return
        dense = count == delta + 1
        if first < self._offset:
            first = self._offset
            count = min(count, last - first + 1)
        is_aborted = bool(attributes & _TRANSACTIONAL and self._aborting and producer_id in self._aborting)
        aborted = count if is_aborted else 0
        if not (dense and self._joins(first, timestamp, aborted)):
            self._flush()
            self._row_first, self._row_dense, self._row_min, self._row_max = first, dense, timestamp, timestamp
            self._row_bucket = timestamp - timestamp % self._bucket_ms if self._bucket_ms else 0
        self._row_last = last
        self._row_count += count
        self._row_size += size
        self._row_aborted += aborted
        self._row_min, self._row_max = min(self._row_min, timestamp), max(self._row_max, timestamp)

    def _joins(self, first: int, timestamp: int, aborted: int) -> bool:
        """Whether a batch belongs to the same row as the one before."""
        if not (self._bucket_ms and self._row_count and self._row_dense and first == self._row_last + 1):
            return False
        if not 0 <= timestamp - self._row_bucket < self._bucket_ms or (aborted > 0) != (self._row_aborted > 0):
            return False
        least, greatest = min(self._row_min, timestamp), max(self._row_max, timestamp)
        if least < 0:
            return False
        return greatest - least <= 1 or (greatest - least) * _PRECISION <= self._now_ms - greatest

    def _flush(self) -> None:
        if self._row_count:
            row = BatchRun.__new__(BatchRun)
            row.key, row.index, row.timestamp = self._key, self._index, self._row_max
            row.count, row.size, row.aborted = self._row_count, self._row_size, self._row_aborted
            row.first, row.last = self._row_first, self._row_last
            row.owner, row.latency_s, row.hidden = None, 0, 0
            self.rows.append(row)
            self._row_count = self._row_size = self._row_aborted = 0


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
