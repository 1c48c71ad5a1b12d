cimport cython
from libc.stdint cimport int64_t

from kafka_sidecar.codec.longs cimport Longs
from kafka_sidecar.codec.noted_requests cimport NotedRequests
from kafka_sidecar.codec.produce_counts cimport Sent, new_sent

cdef Py_ssize_t _HEAD, _ROW, _NOWHERE, _PRODUCED_BYTES, _MAX_SCANNED, _MAX_RESPONSE
cdef int _ONE_BYTE, _NOT_ANSWERED


@cython.final
cdef class ProduceNotes(NotedRequests):
    cdef Py_ssize_t _first, _next, _row, _rows_end, _next_response
    cdef list _responses
    cdef readonly bytes response
    cdef readonly Py_ssize_t answered
    cdef readonly object key
    cdef readonly int index
    cdef readonly int64_t count, size, timestamp, base_offset, elapsed_us

    @cython.locals(place=Py_ssize_t, values="long long*")
    cpdef bint answer(self, bytes data, Py_ssize_t at, Py_ssize_t end, int64_t now_us) except -1
    cpdef bint next_answered(self) except -1
    cpdef int next_open(self) except -1
    @cython.locals(values="long long*", place=Py_ssize_t)
    cdef int _move(self) except -1
    @cython.locals(row=Py_ssize_t, values="long long*")
    cpdef bint next_batch(self) except -1
    cpdef list batches(self)
    @cython.locals(at=Py_ssize_t, stop=Py_ssize_t, values="long long*", sent=list)
    cpdef list open_batches(self)
    @cython.locals(one=Sent, sent=list, values="long long*")
    cdef list _batches(self, Py_ssize_t row, Py_ssize_t stop)
    @cython.locals(at=Py_ssize_t, first=Py_ssize_t, values="long long*")
    cpdef int compact(self) except -1
    cpdef int release(self) except -1
    @cython.locals(
        data=bytes, begin=Py_ssize_t, stop=Py_ssize_t, here=Py_ssize_t, row=Py_ssize_t, left=Py_ssize_t,
        values="long long*", _=int, found=int64_t, size=Py_ssize_t, key_at=Py_ssize_t, partitions=int,
    )
    cpdef bint fits(self) except -1
    @cython.locals(place=Py_ssize_t)
    cdef Py_ssize_t _find_key_of(self, bytes data, Py_ssize_t here, Py_ssize_t size, Py_ssize_t expected) except -2
    @cython.locals(values="long long*", _=Py_ssize_t)
    cdef Py_ssize_t _find_row(
        self, Py_ssize_t row, Py_ssize_t begin, Py_ssize_t stop, Py_ssize_t key_at, int64_t index
    ) noexcept


@cython.locals(here=Py_ssize_t, topics=int, _=int, found=int64_t, partitions=int)
cdef bint _is_success(bytes data, Py_ssize_t at, Py_ssize_t end, bint by_id) except -1
