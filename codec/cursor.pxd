cimport cython
from libc.stdint cimport int64_t

cdef Py_ssize_t _ID_SIZE, _NULL, _MAX_STRING_BYTES, _STRING, _UNLIMITED
cdef int _MAX_UVARINT_BYTES


@cython.final
@cython.no_gc
cdef class Cursor:
    cdef bytes _data
    cdef Py_ssize_t _end, _limit, _room
    cdef readonly Py_ssize_t at
    cdef public bint flexible

    cdef int skip(self, Py_ssize_t size) except -1
    @cython.locals(at=Py_ssize_t, index=Py_ssize_t, value=int64_t)
    cdef int64_t integer(self, Py_ssize_t size) except? -1
    @cython.locals(value=Py_ssize_t, byte=Py_ssize_t, shift=int, _=int)
    cdef Py_ssize_t _uvarint(self) except -1
    @cython.locals(found=Py_ssize_t)
    cdef Py_ssize_t length(self, Py_ssize_t size, bint nullable, str what) except? -1
    @cython.locals(found=Py_ssize_t)
    cdef Py_ssize_t count(self, Py_ssize_t min_bytes, str what) except -1
    cdef int limit(self, Py_ssize_t partitions) except -1
    @cython.locals(found=Py_ssize_t)
    cdef Py_ssize_t topics(self, Py_ssize_t min_bytes, str what) except -1
    @cython.locals(found=Py_ssize_t)
    cdef Py_ssize_t partitions(self, Py_ssize_t min_bytes, str what) except -1
    cdef str string(self, bint nullable, str what)
    cdef object topic(self, bint by_id)
    cdef bint has_tags(self) except -1
    cdef int read_tags(self, dict known) except -1
    cdef int skip_tags(self) except -1
    @cython.locals(at=Py_ssize_t)
    cdef str _text(self, Py_ssize_t size)
    cdef object _truncated(self)
