cimport cython
from libc.stdint cimport int64_t

from kafka_sidecar.codec.cursor cimport Cursor
from kafka_sidecar.codec.fetch_positions cimport Offsets
from kafka_sidecar.codec.records_walk cimport RecordsWalk

cdef int _TRANSACTIONAL, _CONTROL
cdef int64_t _MAX_OFFSET, _PRECISION


@cython.final
@cython.no_gc
@cython.freelist(64)
cdef class BatchRun:
    cdef readonly object key
    cdef readonly int index
    cdef readonly int64_t timestamp, count, size, first, last, aborted
    cdef object owner
    cdef int64_t hidden
    cdef double latency_s


cdef class FetchWalk(RecordsWalk):
    cdef readonly int session_id
    cdef bytes _skip_aborted, _after_aborted
    cdef Offsets _offsets
    cdef bint _committed_only, _row_dense
    cdef int64_t _bucket_ms, _offset
    cdef double _now_ms
    cdef list _aborted
    cdef set _aborting
    cdef int64_t _row_count, _row_size, _row_first, _row_last, _row_aborted, _row_min, _row_max
    cdef int64_t _row_bucket

    cpdef int restart(self, Offsets offsets, bint committed_only, int64_t bucket_ms, double now_ms) except -1
    cdef int _begin(self, Offsets offsets, bint committed_only, int64_t bucket_ms, double now_ms) except -1
    cdef int _read_head(self, Cursor cursor) except -1
    cdef int _read_partition(self, Cursor cursor) except -1
    cdef int _begin_records(self, int index, Py_ssize_t size) except -1
    @cython.locals(found=list, _=Py_ssize_t)
    cdef list _aborted_in(self, Cursor cursor)
    @cython.locals(first=int64_t, last=int64_t, dense=bint, is_aborted=bint, aborted=int64_t)
    cdef _add(
        self, int64_t base, int64_t delta, int64_t count, Py_ssize_t size, int64_t timestamp, int attributes,
        int64_t producer_id,
    )
    @cython.locals(least=int64_t, greatest=int64_t)
    cdef bint _joins(self, int64_t first, int64_t timestamp, int64_t aborted) except -1
    @cython.locals(row=BatchRun)
    cdef int _flush(self) except -1


cdef class ShareFetchWalk(RecordsWalk):
    cdef readonly int error_code
    cdef readonly list acquired
    cdef readonly set refused
    cdef bint _refuses
    cdef bytes _after_acquired, _after_all_acquired

    cdef int _read_head(self, Cursor cursor) except -1
    cdef int _read_partition(self, Cursor cursor) except -1
    cdef _add(
        self, int64_t base, int64_t delta, int64_t count, Py_ssize_t size, int64_t timestamp, int attributes,
        int64_t producer_id,
    )
    cdef int _end_partition(self, Cursor cursor) except -1
    @cython.locals(found=list, _=Py_ssize_t, first=int64_t, last=int64_t)
    cdef int _acquire(self, Cursor cursor) except -1
