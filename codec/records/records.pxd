cimport cython
from cpython.array cimport array as c_array

from kafka_sidecar.codec.records.record cimport Record

cdef Py_ssize_t NULL, _COMPILED, _ITERATED


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

@cython.locals(at=Py_ssize_t, index=Py_ssize_t)
cpdef check(bytes data, Py_ssize_t count)

@cython.locals(raw=Py_ssize_t, end=Py_ssize_t, start=Py_ssize_t, _=int)
cdef Py_ssize_t _record_end(bytes data, Py_ssize_t at, Py_ssize_t index) except -1

@cython.locals(header=Py_ssize_t)
cdef Py_ssize_t _headers_end(bytes data, Py_ssize_t at, Py_ssize_t raw, Py_ssize_t index) except -1

@cython.locals(raw=Py_ssize_t, byte=Py_ssize_t, shift=int)
cdef (Py_ssize_t, Py_ssize_t) _longer(bytes data, Py_ssize_t at, Py_ssize_t first) noexcept

cdef _bad(Py_ssize_t index, str what)
