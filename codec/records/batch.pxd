cimport cython
from libc.stdint cimport int64_t, uint32_t

cdef Py_ssize_t _LENGTH_FROM, _MAGIC_AT, _HEADER_SIZE
cdef int _MAGIC


@cython.final
cdef class BatchHeader:
    cdef readonly int64_t base_offset, base_timestamp, max_timestamp, producer_id
    cdef readonly uint32_t crc
    cdef readonly int length, leader_epoch, magic, attributes, last_offset_delta, producer_epoch, base_sequence, count


@cython.final
cdef class Batch:
    cdef readonly memoryview data
    cdef readonly int magic
    cdef BatchHeader _header


@cython.locals(
    view=memoryview, found=list, at=Py_ssize_t, end=Py_ssize_t, size=Py_ssize_t, min_size=Py_ssize_t, magic=int,
    header=BatchHeader
)
cpdef list batches(data, bint may_end_early=*)

@cython.locals(batch=Batch)
cdef Batch _batch(memoryview data, int magic, BatchHeader header)

@cython.locals(header=BatchHeader, buffer="Py_buffer*", data="const unsigned char*")
cpdef BatchHeader header_at(memoryview view, Py_ssize_t at)

@cython.locals(header=BatchHeader)
cdef BatchHeader _header(const unsigned char* data)

@cython.locals(value=int64_t, index=Py_ssize_t)
cdef int64_t _integer(const unsigned char* data, Py_ssize_t size) noexcept
