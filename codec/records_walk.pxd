cimport cython
from libc.stdint cimport int64_t

from kafka_sidecar.codec.cursor cimport Cursor

cdef int _HEAD, _TOPICS, _PARTITIONS, _BATCHES, _MAGIC, _MIN_OLD, _MIN_TIMED
cdef Py_ssize_t _HEADER_SIZE, _LENGTH_FROM, _LENGTH_AT, _MAGIC_AT, _CRC_AT, _ATTRIBUTES_AT, _DELTA_AT, _TIMESTAMP_AT
cdef Py_ssize_t _PRODUCER_ID_AT, _COUNT_AT, _OLD_TIMESTAMP_AT
cdef int NO_TIMESTAMP
cdef Py_ssize_t _MAX_CARRIED


cdef class RecordsWalk:
    cdef int _phase
    cdef bint _is_request, _flexible, _by_id, _may_end_early, _is_fed, _reads_batches
    cdef Py_ssize_t _max_carried
    cdef bytes _carry, _to_head_field, _to_topics, _to_partition_field, _to_records, _after_records
    cdef bytes _after_partitions
    cdef object _key
    cdef int _index
    cdef int64_t _crc
    cdef Py_ssize_t _topics_left, _partitions_left, _records_left
    cdef readonly list rows
    cdef public Py_ssize_t skip
    cdef readonly bint is_done, has_failed
    cdef readonly Py_ssize_t left

    cdef int _open(self, walked, int version) except -1
    cpdef int ignore_batches(self, Py_ssize_t max_carried) except -1
    cdef int _restart(self) except -1
    @cython.locals(cursor=Cursor, mark=Py_ssize_t)
    cpdef feed(self, bytes data, Py_ssize_t start, Py_ssize_t end)
    @cython.locals(rows=list)
    cpdef list take_rows(self)
    cdef object topic(self)
    cpdef bint try_feed(self, bytes data, Py_ssize_t start, Py_ssize_t end, bint last) except -1
    cdef _step(self, Cursor cursor, Py_ssize_t end)
    @cython.locals(left=Py_ssize_t)
    cdef _records(self, Cursor cursor, Py_ssize_t end)
    @cython.locals(
        left=Py_ssize_t, data=bytes, at=Py_ssize_t, size=Py_ssize_t, magic=int, attributes=int, delta=int64_t,
        timestamp=int64_t, producer_id=int64_t, count=int64_t,
    )
    cdef _batch(self, Cursor cursor, Py_ssize_t end)
    @cython.locals(left=Py_ssize_t)
    cdef int _end_early(self, Cursor cursor, Py_ssize_t end) except -1
    @cython.locals(here=Py_ssize_t)
    cdef int _pass(self, Cursor cursor, Py_ssize_t size, Py_ssize_t end) except -1
    cdef Py_ssize_t _head(self, Cursor cursor) except -2
    @cython.locals(index=int, size=Py_ssize_t)
    cdef Py_ssize_t _partition(self, Cursor cursor) except -2
    cdef int _read_head(self, Cursor cursor) except -1
    cdef int _read_partition(self, Cursor cursor) except -1
    cdef int _begin_records(self, int index, Py_ssize_t size) except -1
    cdef _add(
        self, int64_t base, int64_t delta, int64_t count, Py_ssize_t size, int64_t timestamp, int attributes,
        int64_t producer_id,
    )
    cdef int _end_partition(self, Cursor cursor) except -1
    cdef int _flush(self) except -1
