cimport cython


@cython.final
cdef class Header:
    cdef readonly bytes key_bytes
    cdef readonly bytes value


@cython.locals(header=Header)
cdef Header header_of(bytes key, bytes value)
