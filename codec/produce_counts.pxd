cimport cython
from libc.stdint cimport int64_t

from kafka_sidecar.codec.cursor cimport Cursor
from kafka_sidecar.codec.records_walk cimport RecordsWalk

cdef int _NOT_ANSWERED, _NO_OFFSET, _NO_TIME, _NOWHERE, _MAX_SCANNED


@cython.final
@cython.no_gc
@cython.freelist(64)
cdef class Sent:
    cdef readonly object key
    cdef readonly int index, error
    cdef object owner, result
    cdef double latency_s
    cdef readonly int64_t count, size, timestamp, crc, base_offset, append_time


@cython.locals(one=Sent)
cdef Sent new_sent(key, int index)


cdef class ProduceWalk(RecordsWalk):
    @cython.locals(one=Sent)
    cdef _add(
        self, int64_t base, int64_t delta, int64_t count, Py_ssize_t size, int64_t timestamp, int attributes,
        int64_t producer_id,
    )


@cython.locals(
    flexible=bint, by_id=bint, to_topics=bytes, size=Py_ssize_t, error_at=Py_ssize_t, base_at=Py_ssize_t,
    time_at=Py_ssize_t, after=bytes, cursor=Cursor, places=dict, place=Py_ssize_t, _=Py_ssize_t, here=Py_ssize_t,
    index=int, error=int, base=int64_t, time=int64_t,
)
cpdef acknowledge(list sent, bytes data, Py_ssize_t at, Py_ssize_t end, int version)

@cython.locals(
    flexible=bint, by_id=bint, to_topics=bytes, size=Py_ssize_t, error_at=Py_ssize_t, after=bytes, cursor=Cursor,
    found=list,
)
cpdef list produce_errors(bytes data, Py_ssize_t at, Py_ssize_t end, int version)

@cython.locals(found=dict, place=Py_ssize_t, one=Sent)
cdef dict _places(list sent)

@cython.locals(size=Py_ssize_t, _=Py_ssize_t, one=Sent)
cdef Py_ssize_t _place(list sent, object key, int index, Py_ssize_t place) except -2

@cython.locals(first=Sent, one=Sent)
cdef Py_ssize_t _note(list sent, Py_ssize_t place, int error, int64_t base, int64_t time) except -2
