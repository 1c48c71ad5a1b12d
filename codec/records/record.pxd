cimport cython

cdef Py_ssize_t NULL, _COMPILED, _LARGE


@cython.final
cdef class Header:
    cdef readonly bytes key_bytes
    cdef readonly bytes value


@cython.locals(header=Header)
cdef Header header_of(bytes key, bytes value)


@cython.final
cdef class Record:
    cdef object _append_time
    cdef long long _base_timestamp
    cdef bytes _data
    cdef Py_ssize_t _index, _begin, _start, _end, _key_at, _key_size, _value_at, _value_size, _headers_at

    @cython.locals(at=Py_ssize_t, raw=Py_ssize_t)
    cdef void _advance(self) noexcept
    @cython.locals(record=Record)
    cdef Record _copy(self)
    @cython.locals(at=Py_ssize_t, raw=Py_ssize_t)
    cdef void _read(self) noexcept
    @cython.locals(count=Py_ssize_t, at=Py_ssize_t, raw=Py_ssize_t, end=Py_ssize_t, found=Py_ssize_t, data=bytes)
    cdef Py_ssize_t _find(self, bytes name) noexcept


@cython.locals(size=Py_ssize_t, index=Py_ssize_t, raw=Py_ssize_t, at=Py_ssize_t, end=Py_ssize_t, left=Py_ssize_t)
cpdef list find_missing_header(bytes data, Py_ssize_t count, bytes name, Py_ssize_t max_results)
@cython.locals(raw=Py_ssize_t, byte=Py_ssize_t, shift=int)
cdef (Py_ssize_t, Py_ssize_t) uvarint(bytes data, Py_ssize_t at) noexcept
@cython.locals(raw=cython.ulonglong, byte=cython.ulonglong, shift=int)
cdef (long long, Py_ssize_t) varlong(bytes data, Py_ssize_t at) noexcept
cdef Py_ssize_t _smaller(Py_ssize_t one, Py_ssize_t other) noexcept
cdef bytes _slice(bytes data, Py_ssize_t start, Py_ssize_t end)
cdef bint matches_at(bytes name, bytes data, Py_ssize_t at) noexcept
