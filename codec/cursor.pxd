cimport cython
from libc.stdint cimport int64_t

cdef extern from *:
    """
    /* data[at:at + size], of a size that a compiler makes one load of; the caller has checked the bounds. */
    static CYTHON_INLINE int64_t read_big_endian(PyObject *data, Py_ssize_t at, Py_ssize_t size) {
        const unsigned char *p = (const unsigned char *)PyBytes_AS_STRING(data) + at;
        uint64_t value = 0;
        if (size == 8) {
            return (int64_t)((uint64_t)p[0] << 56 | (uint64_t)p[1] << 48 | (uint64_t)p[2] << 40 | (uint64_t)p[3] << 32
                | (uint64_t)p[4] << 24 | (uint64_t)p[5] << 16 | (uint64_t)p[6] << 8 | (uint64_t)p[7]);
        }
        if (size == 4) {
            return (int32_t)((uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | (uint32_t)p[3]);
        }
        value = (uint64_t)(int64_t)(signed char)p[0];
        for (Py_ssize_t index = 1; index < size; index++) value = value << 8 | p[index];
        return (int64_t)value;
    }

    /* Whether known, bytes or an ASCII string, is data[at:at + size]; the caller has checked the bounds. */
    static CYTHON_INLINE int is_text(PyObject *known, PyObject *data, Py_ssize_t at, Py_ssize_t size) {
        const char *text = PyBytes_AS_STRING(data) + at;
        if (PyBytes_CheckExact(known)) {
            return PyBytes_GET_SIZE(known) == size && !memcmp(PyBytes_AS_STRING(known), text, size);
        }
        return PyUnicode_CheckExact(known) && PyUnicode_IS_COMPACT_ASCII(known)
            && PyUnicode_GET_LENGTH(known) == size && !memcmp(PyUnicode_1BYTE_DATA(known), text, size);
    }

    /* Load data[at:at + size] into the CPU's cache, without waiting; the caller has checked the bounds. */
    static CYTHON_INLINE void prefetch(PyObject *data, Py_ssize_t at, Py_ssize_t size) {
    #if defined(__GNUC__)
        const char *p = PyBytes_AS_STRING(data) + at;
        __builtin_prefetch(p);
        __builtin_prefetch(p + size - 1);
    #endif
    }
    """
    int64_t read_big_endian(bytes data, Py_ssize_t at, Py_ssize_t size) noexcept
    bint is_text(object known, bytes data, Py_ssize_t at, Py_ssize_t size) noexcept
    void prefetch(bytes data, Py_ssize_t at, Py_ssize_t size) noexcept

cdef Py_ssize_t _CLIENT_ID_AT, _ID_SIZE, _NULL, _MAX_STRING_BYTES, _ONE_BYTE, _STRING, _UNLIMITED
cdef int _SKIP, _SKIP_TAGS, _SKIP_STRING, _EACH, _NULLABLE, _KINDS
cdef int _MAX_UVARINT_BYTES


@cython.final
@cython.no_gc
@cython.freelist(8)
cdef class Cursor:
    cdef readonly bytes data
    cdef Py_ssize_t _end, _limit, _room
    cdef public Py_ssize_t at
    cdef public bint flexible

    cpdef int skip(self, Py_ssize_t size) except -1
    @cython.locals(at=Py_ssize_t)
    cpdef Py_ssize_t take(self, Py_ssize_t size) except -1
    cpdef int64_t integer(self, Py_ssize_t size) except? -1
    @cython.locals(value=Py_ssize_t, at=Py_ssize_t, byte=Py_ssize_t, shift=int, _=int)
    cdef Py_ssize_t _uvarint(self) except -1
    @cython.locals(found=Py_ssize_t, at=Py_ssize_t)
    cpdef Py_ssize_t length(self, Py_ssize_t size, bint nullable, str what) except? -1
    @cython.locals(found=Py_ssize_t)
    cpdef Py_ssize_t count(self, Py_ssize_t min_bytes, str what) except -1
    cpdef int limit(self, Py_ssize_t partitions) except -1
    @cython.locals(found=Py_ssize_t)
    cpdef Py_ssize_t topics(self, Py_ssize_t min_bytes, str what) except -1
    @cython.locals(found=Py_ssize_t)
    cpdef Py_ssize_t partitions(self, Py_ssize_t min_bytes, str what) except -1
    cpdef str string(self, bint nullable, str what)
    @cython.locals(size=Py_ssize_t, at=Py_ssize_t, text=bytes)
    cpdef object topic(self, bint by_id, known=*)
    cpdef bint has_tags(self) except -1
    cpdef int read_tags(self, dict known) except -1
    @cython.locals(count=Py_ssize_t, _=Py_ssize_t)
    cpdef int skip_tags(self) except -1
    cpdef int skip_request_header(self, bint flexible) except -1
    cpdef int skip_response_header(self) except -1
    cpdef int follow(self, bytes plan) except -1
    @cython.locals(kind=int, size=Py_ssize_t, found=Py_ssize_t, _=Py_ssize_t)
    cdef int _follow(self, bytes plan, Py_ssize_t step, Py_ssize_t end) except -1
    @cython.locals(at=Py_ssize_t)
    cdef str _text(self, Py_ssize_t size)
    cdef object _truncated(self)


@cython.locals(cursor=Cursor)
cpdef Cursor cursor_at(bytes data, Py_ssize_t at, Py_ssize_t end, bint flexible)

@cython.locals(cursor=Cursor)
cpdef bint ends_with_tags(bytes data, Py_ssize_t at, Py_ssize_t end, bytes plan) except -1
