cimport cython
from libc.stdint cimport int64_t

cdef Py_ssize_t _MIN_ROOM


@cython.final
@cython.no_gc
cdef class Int64List:
    cdef readonly Py_ssize_t size
    cdef Py_ssize_t _room
    cdef long long* _values

    cpdef int append(self, int64_t value) except -1
    cpdef int add(self, Py_ssize_t index, int64_t value) except -1
    cpdef int64_t get(self, Py_ssize_t index) except? -1
    @cython.locals(begin=Py_ssize_t, end=Py_ssize_t, middle=Py_ssize_t)
    cpdef Py_ssize_t find(self, int64_t value) noexcept
    cdef int _reach(self, Py_ssize_t size) except -1
    @cython.locals(values="long long*", index=Py_ssize_t)
    cdef int _make_room(self, Py_ssize_t room) except -1
