cimport cython
from libc.stdint cimport int64_t

cdef int64_t _NONE
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


@cython.final
cdef class Recent:
    cdef Py_ssize_t _max_entries
    cdef dict _young, _old
    cdef readonly int64_t generation

    cpdef get(self, key)
    @cython.locals(young=dict)
    cpdef put(self, key, value)


@cython.final
cdef class Acked:
    cdef AckMemory _memory
    cdef readonly int64_t generation
    cdef Int64List _offsets, _times
    cdef dict _late
    cdef Acked older
    cdef int64_t _last, _last_time
    cdef bint _has_last

    @cython.locals(is_known=bint)
    cpdef bint put(self, int64_t offset, int64_t timestamp) except -1
    cpdef bint knows(self, int64_t offset, int64_t timestamp) except -1
    @cython.locals(at=Py_ssize_t)
    cdef object _time_of(self, int64_t offset)


@cython.final
cdef class AckMemory:
    cdef readonly int64_t generation
    cdef int64_t _left, _max_batches
    cdef dict _young, _old

    @cython.locals(found=Acked)
    cpdef Acked of(self, topic, partition)
    @cython.locals(one=Acked)
    cdef int count_one(self) except -1


@cython.final
cdef class Delivered:
    cdef list _ranges
    cdef int64_t _first, _last, _latest

    cpdef int64_t add(self, int64_t first, int64_t last, int64_t timestamp) except -1
    cpdef bint has(self, int64_t offset, int64_t first, int64_t last, int64_t timestamp) except -1
    cdef _insert(self, first, last, timestamp)
