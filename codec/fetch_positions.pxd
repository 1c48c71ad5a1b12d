cimport cython
from libc.stdint cimport int64_t

from kafka_sidecar.codec.cursor cimport Cursor

cdef Py_ssize_t _MAX_SCANNED
cdef int _UNKNOWN
cdef int _NO_SESSION


cdef class FetchHead:
    cdef readonly int isolation_level, session_id, session_epoch
    cdef readonly Py_ssize_t epoch_at, max_bytes_at, topics_at


@cython.locals(
    flexible=bint, to_max_bytes=bytes, to_isolation=bytes, to_session=bytes, to_epoch=bytes, to_topics=bytes,
    cursor=Cursor,
)
cpdef Cursor open_fetch(bytes data, Py_ssize_t at, Py_ssize_t end, int version, FetchHead found)


@cython.final
@cython.no_gc
@cython.freelist(64)
cdef class Asked:
    cdef readonly object key
    cdef readonly int index
    cdef readonly int64_t offset


@cython.final
cdef class Offsets:
    cdef readonly Py_ssize_t size
    cdef list _rows
    cdef dict _by_partition
    cdef Py_ssize_t _next

    cpdef int clear(self) except -1
    @cython.locals(row=Asked)
    cdef object expected(self, known)
    @cython.locals(row=Asked)
    cpdef int add(self, key, int index, int64_t offset) except -1
    @cython.locals(row=Asked)
    cpdef int64_t get(self, key, int index) except? -1
    @cython.locals(place=Py_ssize_t, row=Asked, known=Asked)
    cpdef int update(self, Offsets named) except -1
    @cython.locals(row=Asked)
    cpdef int forget(self, key, int index) except -1
    @cython.locals(place=Py_ssize_t, row=Asked, _=Py_ssize_t)
    cdef Asked _find(self, key, int index)
    @cython.locals(row=Asked)
    cdef Asked _look_up(self, key, int index)


cdef class FetchPositions(FetchHead):
    cdef int _version
    cdef bint _by_id
    cdef Py_ssize_t _fixed_size, _offset_at
    cdef bytes _after_fixed, _after_partitions, _to_forgotten, _after_forgotten
    cdef readonly Offsets offsets
    cdef readonly list forgotten

    cpdef Py_ssize_t size(self) except -1
    @cython.locals(offsets=Offsets, cursor=Cursor, topic=object, here=Py_ssize_t, offset=int64_t, _=Py_ssize_t)
    cpdef int read(self, bytes data, Py_ssize_t at, Py_ssize_t end, known=*) except -1
