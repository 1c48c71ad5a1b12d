cimport cython

from kafka_sidecar.codec.cursor cimport Cursor

cdef Py_ssize_t _ID_SIZE
cdef int _PRODUCED_IDS, _FETCHED_IDS


@cython.locals(cursor=Cursor, _=Py_ssize_t)
cpdef bint produced_has_tags(bytes data, Py_ssize_t at, Py_ssize_t end, int version) except -1

@cython.locals(cursor=Cursor, _=Py_ssize_t)
cpdef bint fetched_has_tags(bytes data, Py_ssize_t at, Py_ssize_t end, int version) except -1

@cython.locals(_=Py_ssize_t)
cdef int _skip_fetched(Cursor cursor) except -1

@cython.locals(_=Py_ssize_t)
cdef int skip_errors(Cursor cursor) except -1
