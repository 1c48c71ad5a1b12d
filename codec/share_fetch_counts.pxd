cimport cython
from libc.stdint cimport int64_t

from kafka_sidecar.codec.cursor cimport Cursor
from kafka_sidecar.codec.records_walk cimport RecordsWalk

cdef int _CONTROL, _LOCK_TIMEOUT
cdef Py_ssize_t _ACQUIRED_BYTES
cdef int64_t _MAX_OFFSET


cdef class ShareFetchWalk(RecordsWalk):
    cdef readonly int error_code
    cdef readonly list acquired
    cdef readonly set refused
    cdef bint _refuses

    @cython.locals(error_code=int, count=Py_ssize_t)
    cdef Py_ssize_t _head(self, Cursor cursor) except -2
    @cython.locals(index=int, refuses=bint, size=Py_ssize_t)
    cdef Py_ssize_t _partition(self, Cursor cursor) except -2
    cdef _add(
        self, int64_t base, int64_t delta, int64_t count, Py_ssize_t size, int64_t timestamp, int attributes,
        int64_t producer_id,
    )
    @cython.locals(count=Py_ssize_t, found=list, _=Py_ssize_t, first=int64_t, last=int64_t)
    cdef int _after_records(self, Cursor cursor) except -1
