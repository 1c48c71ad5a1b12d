cimport cython
from libc.stdint cimport int64_t

from kafka_sidecar.codec.cursor cimport Cursor
from kafka_sidecar.codec.records_walk cimport RecordsWalk

cdef int _PRODUCE_FLEXIBLE, _PRODUCE_TRANSACTIONS, _PRODUCE_IDS, _NO_TIME
cdef int _PRODUCED_FLEXIBLE, _PRODUCED_TIME, _PRODUCED_START, _PRODUCED_ERRORS, _PRODUCED_IDS


cdef class ProduceWalk(RecordsWalk):
    cdef readonly int acks

    cdef Py_ssize_t _head(self, Cursor cursor) except -2
    @cython.locals(index=int, size=Py_ssize_t)
    cdef Py_ssize_t _partition(self, Cursor cursor) except -2
    cdef _add(
        self, int64_t base, int64_t delta, int64_t count, Py_ssize_t size, int64_t timestamp, int attributes,
        int64_t producer_id,
    )


@cython.locals(
    flexible=bint, by_id=bint, cursor=Cursor, found=list, _=Py_ssize_t, index=int, error=int, base=int64_t, time=int64_t
)
cpdef list acknowledged(bytes data, Py_ssize_t at, Py_ssize_t end, int version)

@cython.locals(_=Py_ssize_t)
cdef int _skip_errors(Cursor cursor) except -1
