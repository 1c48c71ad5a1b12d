cimport cython

from kafka_sidecar.codec.cursor cimport Cursor

cdef int _NO_SESSION, _ID_SIZE
cdef Py_ssize_t _CLIENT_ID_AT
cdef int _PRODUCE_FLEXIBLE, _PRODUCE_TRANSACTIONS, _PRODUCE_IDS
cdef int _FETCH_FLEXIBLE, _FETCH_MAX, _FETCH_MAX_BYTES, _FETCH_ISOLATION, _FETCH_START_OFFSET, _FETCH_SESSIONS
cdef int _FETCH_LEADER_EPOCH, _FETCH_FETCHED_EPOCH, _FETCH_IDS, _FETCH_REPLICA_STATE


@cython.final
cdef class FetchGlance:
    cdef readonly int session_epoch
    cdef readonly tuple topics
    cdef readonly Py_ssize_t epoch_at, named_to


@cython.locals(by_id=bint, end=Py_ssize_t, topics=list, cursor=Cursor, count=Py_ssize_t, index=Py_ssize_t)
cpdef tuple glance_produce(bytes data, Py_ssize_t at, Py_ssize_t size, int version, Py_ssize_t max_partitions=*)

@cython.locals(_=Py_ssize_t)
cdef int _skip_produced(Cursor cursor) except -1

@cython.locals(found=FetchGlance, topics=list, cursor=Cursor, _=Py_ssize_t)
cpdef FetchGlance glance_fetch(bytes data, Py_ssize_t at, Py_ssize_t size, int version, Py_ssize_t max_partitions=*)

@cython.locals(found=FetchGlance, cursor=Cursor, _=Py_ssize_t)
cpdef check_fetch_partitions(bytes frame, int version, Py_ssize_t max_partitions)

cdef int _skip_to_topics(Cursor cursor, int version, FetchGlance found) except -1

@cython.locals(size=Py_ssize_t, _=Py_ssize_t)
cdef int _skip_fetched(Cursor cursor, int version) except -1

@cython.locals(cursor=Cursor)
cdef Cursor _open(bytes data, Py_ssize_t at, Py_ssize_t size, bint flexible)

@cython.locals(size=Py_ssize_t)
cdef object _topic(Cursor cursor, bytes data, bint by_id)
