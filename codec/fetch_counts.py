"""How many records a response to Fetch or ShareFetch (KIP-932) delivers, by batch headers alone.

A ShareFetch response has whole batches, and after them the ranges of offsets that the member has acquired; only these
are its.

This file runs as it is and compiled (fetch_counts.pxd holds the C types).
"""

from __future__ import annotations

from functools import cache

from kafka_sidecar.codec.batch_layout import CONTROL, TRANSACTIONAL
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.message import field_plan, has_field, plan
from kafka_sidecar.codec.messages.fetch import AbortedTransaction, FetchableTopicResponse, FetchResponse, PartitionData
from kafka_sidecar.codec.messages.share_fetch import (
    AcquiredRecords,
    ShareFetchableTopicResponse,
    ShareFetchResponse,
)
from kafka_sidecar.codec.messages.share_fetch import PartitionData as SharePartition
from kafka_sidecar.codec.records_walk import Walked

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


_RESPONSE = Walked(
    FetchResponse,
    "responses",
    FetchableTopicResponse,
    PartitionData,
    head_field="session_id",
    partition_field="aborted_transactions",
)


@cache
def _aborted_plans(version: int) -> tuple[bytes, bytes]:
    """Plans over the aborted transactions, and of one of them after its offset."""
    if not has_field(PartitionData, "aborted_transactions", version):
        return b"", b""
    return (
        field_plan(PartitionData, version, "aborted_transactions"),
        plan(AbortedTransaction, version, after="first_offset"),
    )


class FetchWalk(RecordsWalk):
    """A Fetch response from its length on; `rows` are `BatchRun`: what the client that asked for it reads.

    What is before the offset that it asked for is cut off, control batches are not shown, and records of aborted
    transactions only to clients that read uncommitted ones. Batches that follow each other are one row if they are in
    the same bucket of event time, with the same latency.
    """

    __slots__ = (
        "_aborted", "_aborting", "_after_aborted", "_bucket_ms", "_committed_only", "_now_ms", "_offset", "_offsets",
        "_row_aborted", "_row_bucket", "_row_count", "_row_dense", "_row_first", "_row_last", "_row_max", "_row_min",
        "_row_size", "_skip_aborted", "session_id",
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
        self._open(_RESPONSE, version)
        self._skip_aborted, self._after_aborted = _aborted_plans(version)
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

    def _read_head(self, cursor: Cursor) -> None:
        self.session_id = cursor.integer(4)

    def _read_partition(self, cursor: Cursor) -> None:
        if self._committed_only:
            self._aborted = self._aborted_in(cursor)
        else:
            cursor.follow(self._skip_aborted)

    def _begin_records(self, index: int, size: int) -> None:
        self._index = index
        if self._aborting:
            self._aborting = set()
        self._offset = self._offsets.get(self._key, index) if size > 0 else 0

    def _aborted_in(self, cursor: Cursor) -> list[tuple[int, int]]:
        found = []
        for _ in range(cursor.length(4, True, "aborted_transactions")):
            producer_id = cursor.integer(8)
            found.append((cursor.integer(8), producer_id))
            cursor.follow(self._after_aborted)
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


_SHARE_RESPONSE = Walked(
    ShareFetchResponse,
    "responses",
    ShareFetchableTopicResponse,
    SharePartition,
    head_field="error_code",
    partition_field="acknowledge_error_code",
)


@cache
def _acquired_plans(version: int) -> tuple[bytes, bytes]:
    """Plans of acquired records after the number of their deliveries, and of a partition after them."""
    return (
        plan(AcquiredRecords, version, after="delivery_count"),
        plan(SharePartition, version, after="acquired_records"),
    )


class ShareFetchWalk(RecordsWalk):
    """A ShareFetch response from its length on; `rows` are `SharedBatch`, without control batches."""

    __slots__ = ("_after_acquired", "_after_all_acquired", "_refuses", "acquired", "error_code", "refused")

    def __init__(self, version: int) -> None:
        self._open(_SHARE_RESPONSE, version)
        self._after_acquired, self._after_all_acquired = _acquired_plans(version)
        self.error_code = 0
        self.acquired: list[Acquired] = []
        self.refused: set[tuple[str | bytes, int]] = set()
        """Partitions of which the broker has not taken the acknowledgements in the request."""
        self._refuses = False

    def _read_head(self, cursor: Cursor) -> None:
        self.error_code = cursor.integer(2)

    def _read_partition(self, cursor: Cursor) -> None:
        self._refuses = cursor.integer(2) != 0

    def _add(
        self, base: int, delta: int, count: int, size: int, timestamp: int, attributes: int, producer_id: int
    ) -> None:
        if base < 0 or base > _MAX_OFFSET:
            raise CodecError(f"a batch at offset {base}")
        if not attributes & _CONTROL:
            self.rows.append((self._key, self._index, timestamp, count, size, base, base + delta))

    def _end_partition(self, cursor: Cursor) -> None:
        if self._reads_batches:
            self._acquire(cursor)
        else:
            cursor.follow(self._after_records)

    def _acquire(self, cursor: Cursor) -> None:
        found = []
        for _ in range(cursor.length(4, False, "acquired_records")):
            first = cursor.integer(8)
            last = cursor.integer(8)
            found.append((self._key, self._index, first, last, cursor.integer(2)))
            cursor.follow(self._after_acquired)
        cursor.follow(self._after_all_acquired)
        self.acquired += found
        if self._refuses:
            self.refused.add((self._key, self._index))
