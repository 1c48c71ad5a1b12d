cimport cython

cdef Py_ssize_t NULL, _COMPILED

@cython.locals(at=Py_ssize_t, index=Py_ssize_t)
cpdef check(bytes data, Py_ssize_t count)

@cython.locals(raw=Py_ssize_t, end=Py_ssize_t, start=Py_ssize_t, _=int)
cdef Py_ssize_t _record_end(bytes data, Py_ssize_t at, Py_ssize_t index) except -1

@cython.locals(header=Py_ssize_t)
cdef Py_ssize_t _headers_end(bytes data, Py_ssize_t at, Py_ssize_t raw, Py_ssize_t index) except -1

@cython.locals(raw=Py_ssize_t, byte=Py_ssize_t, shift=int)
cdef (Py_ssize_t, Py_ssize_t) _longer(bytes data, Py_ssize_t at, Py_ssize_t first) noexcept

cdef _bad(Py_ssize_t index, str what)
