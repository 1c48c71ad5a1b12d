cimport cython
from libc.stdint cimport int64_t

from kafka_sidecar.codec.cursor cimport Cursor


cdef class GroupRequests:
    cdef bint _flexible, _in_array

    @cython.locals(cursor=Cursor)
    cpdef str group(self, bytes data, Py_ssize_t at, Py_ssize_t end)


cdef class CommitRequests:
    cdef bint _flexible, _by_id, _in_transaction, _has_member, _has_instance
    cdef Py_ssize_t _before_member, _retention, _after_offset, _throttle

    @cython.locals(cursor=Cursor, group=str, offsets=dict, index=int, _=Py_ssize_t)
    cpdef tuple read(self, bytes data, Py_ssize_t at, Py_ssize_t end)
    @cython.locals(cursor=Cursor, found=list, index=int, _=Py_ssize_t)
    cpdef list accepted(self, bytes data, Py_ssize_t at, Py_ssize_t end)
