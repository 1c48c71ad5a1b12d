cimport cython

from kafka_sidecar.codec.cursor cimport Cursor
from kafka_sidecar.codec.fetch_positions cimport FetchHead

cdef int _ID_SIZE, _PRODUCE_FLEXIBLE, _PRODUCE_TRANSACTIONS, _PRODUCE_IDS, _FETCH_MAX


@cython.final
cdef class FetchGlance(FetchHead):
    cdef readonly tuple topics
    cdef readonly Py_ssize_t named_to


@cython.locals(by_id=bint, end=Py_ssize_t, topics=list, cursor=Cursor, count=Py_ssize_t, index=Py_ssize_t)
cpdef tuple glance_produce(bytes data, Py_ssize_t at, Py_ssize_t size, int version, Py_ssize_t max_partitions=*)

@cython.locals(_=Py_ssize_t)
cdef int _skip_produced(Cursor cursor) except -1

@cython.locals(found=FetchGlance, topics=list, cursor=Cursor, _=Py_ssize_t)
cpdef FetchGlance glance_fetch(bytes data, Py_ssize_t at, Py_ssize_t size, int version, Py_ssize_t max_partitions=*)

@cython.locals(cursor=Cursor, _=Py_ssize_t)
cpdef check_fetch_partitions(bytes frame, int version, Py_ssize_t max_partitions)

@cython.locals(size=Py_ssize_t, _=Py_ssize_t)
cdef int _skip_fetched(Cursor cursor, int version) except -1

@cython.locals(size=Py_ssize_t)
cdef object _topic(Cursor cursor, bytes data, bint by_id)
