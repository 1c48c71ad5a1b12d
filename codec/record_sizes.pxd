cimport cython
from libc.stdint cimport int64_t

from kafka_sidecar.codec.records_walk cimport RecordsWalk

cdef int _CONTROL


cdef class RecordSizes(RecordsWalk):
    cdef readonly Py_ssize_t batches
    cdef int64_t _bytes, _count
    cdef bint _passes_control

    cpdef int restart(self) except -1
    @cython.locals(rows=list)
    cpdef list take(self)
    cpdef list whole(self, bytes data, Py_ssize_t start, Py_ssize_t end)
    cdef _add(
        self, int64_t base, int64_t delta, int64_t count, Py_ssize_t size, int64_t timestamp, int attributes,
        int64_t producer_id,
    )
    cdef int _flush(self) except -1
    @cython.locals(at=Py_ssize_t, last=tuple)
    cdef int _end_topic(self) except -1
