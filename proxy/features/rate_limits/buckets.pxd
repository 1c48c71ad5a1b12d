cimport cython
from libc.stdint cimport uint64_t

cdef double _MAX_DEBT_S


cdef class Buckets:
    cdef readonly uint64_t[:] keys
    cdef readonly double[:] full_at


@cython.final
cdef class Bucket:
    cdef Buckets _all
    cdef uint64_t _key
    cdef double _seconds, _burst_s
    cdef Py_ssize_t _slot

    @cython.locals(slot=Py_ssize_t, everything=Buckets, full_at=double, owed=double)
    cpdef double take(self, double amount, double now) except? -1.0
