cimport cython
from libc.stdint cimport int64_t

from kafka_sidecar.codec.cursor cimport Cursor

cdef Py_ssize_t _MAX_SCANNED
cdef int _UNKNOWN
cdef int _NO_SESSION, _CLIENT_ID_AT
cdef int _FLEXIBLE, _MAX_BYTES, _ISOLATION, _SESSIONS, _REPLICA_STATE, _IDS, _START_OFFSET, _LEADER_EPOCH
cdef int _FETCHED_EPOCH


cdef class FetchHead:
    cdef readonly int isolation_level, session_id, session_epoch
    cdef readonly Py_ssize_t epoch_at


@cython.locals(cursor=Cursor)
cpdef Cursor open_request(bytes data, Py_ssize_t at, Py_ssize_t end, bint flexible)
cpdef Cursor open_fetch(bytes data, Py_ssize_t at, Py_ssize_t end, int version)
cpdef int read_fetch_head(Cursor cursor, int version, FetchHead found) except -1
cpdef bint names_ids(int version) noexcept
cdef bint has_sessions(int version) noexcept
cpdef int bytes_before_offset(int version) noexcept
@cython.locals(size=int)
cpdef int bytes_after_offset(int version) noexcept


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
    cdef readonly Offsets offsets
    cdef readonly list forgotten

    cpdef Py_ssize_t size(self) except -1
    @cython.locals(
        version=int, offsets=Offsets, before=int, after=int, cursor=Cursor, topic=object, index=int, _=Py_ssize_t
    )
    cpdef int read(self, bytes data, Py_ssize_t at, Py_ssize_t end, known=*) except -1
