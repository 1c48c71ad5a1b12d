cimport cython

from kafka_sidecar.codec.cursor cimport Cursor

cdef int _NO_SESSION, _CLIENT_ID_AT
cdef int _FLEXIBLE, _MAX_BYTES, _ISOLATION, _SESSIONS, _REPLICA_STATE, _IDS, _START_OFFSET, _LEADER_EPOCH
cdef int _FETCHED_EPOCH


cdef class FetchHead:
    cdef readonly int isolation_level, session_id, session_epoch
    cdef readonly Py_ssize_t epoch_at


@cython.locals(cursor=Cursor)
cdef Cursor open_request(bytes data, Py_ssize_t at, Py_ssize_t end, bint flexible)
cdef Cursor open_fetch(bytes data, Py_ssize_t at, Py_ssize_t end, int version)
cdef int read_fetch_head(Cursor cursor, int version, FetchHead found) except -1
cdef bint names_ids(int version) noexcept
cdef bint has_sessions(int version) noexcept
cdef int bytes_before_offset(int version) noexcept
@cython.locals(size=int)
cdef int bytes_after_offset(int version) noexcept
