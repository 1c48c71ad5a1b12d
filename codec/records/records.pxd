cimport cython
from cpython.array cimport array as c_array

from kafka_sidecar.codec.records.record cimport Record

cdef Py_ssize_t _COMPILED, _ITERATED


@cython.final
cdef class Records:
    cdef readonly bytes payload
    cdef Py_ssize_t _count
    cdef long long _base_timestamp
    cdef object _append_time, _starts

    @cython.locals(record=Record)
    cdef Record _cursor(self)
    @cython.locals(records=Records)
    cpdef Records _rewritten(self, bytes payload, Py_ssize_t count)
    @cython.locals(record=Record)
    cdef _find_starts(self)
    @cython.locals(
        record=Record, base=cython.longlong, delta=cython.longlong, index=Py_ssize_t, _=Py_ssize_t, found=c_array
    )
    cpdef timestamps(self)
    @cython.locals(record=Record, index=Py_ssize_t, keys=c_array, values=c_array)
    cpdef sizes(self)


cdef c_array _zeros(Py_ssize_t count)
cdef void _set(c_array found, Py_ssize_t index, long long value) noexcept
cdef long long _sum(long long one, long long other) noexcept
