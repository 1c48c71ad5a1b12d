cimport cython
from libc.stdint cimport int64_t

cdef int64_t _NONE


@cython.final
cdef class OffsetRanges:
    cdef object _firsts, _lasts
    cdef int64_t _begin, _end
    cdef readonly bint is_exact

    cdef bint extend(self, int64_t first, int64_t last) except -1
    cpdef add(self, first, last, bint has_room=*)
    cdef _note_end(self)
    cdef _insert(self, first, last, bint has_room)
