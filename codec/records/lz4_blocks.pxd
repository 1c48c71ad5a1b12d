cimport cython

cdef bytes _START
cdef Py_ssize_t _MIN_BLOCKS, _SMALL_BLOCK_BYTES, _START_SIZE, _BLOCK_BYTES, _RAW, _MAX_RATIO

@cython.locals(out=bytes, view=memoryview, at=Py_ssize_t, to=Py_ssize_t, end=Py_ssize_t, size=Py_ssize_t)
cpdef bytes decompress_blocks(memoryview data, Py_ssize_t limit)

@cython.locals(end=Py_ssize_t, at=Py_ssize_t, found=Py_ssize_t, blocks=Py_ssize_t, max_blocks=Py_ssize_t, size=Py_ssize_t, raw=Py_ssize_t)
cdef Py_ssize_t _max_size(memoryview data) except -2

@cython.locals(buffer="Py_buffer*")
cdef bint _has_start(memoryview data) except -1

@cython.locals(place="const unsigned char*")
cdef Py_ssize_t _size_at(memoryview data, Py_ssize_t at) except -1
