cimport cython

from kafka_sidecar.codec.records.batch_header cimport BatchHeader

cdef Py_ssize_t _LENGTH_FROM, _HEADER_SIZE
cdef int _MAGIC


@cython.final
cdef class Batch:
    cdef readonly memoryview data
    cdef readonly int magic
    cdef BatchHeader _header


@cython.locals(
    view=memoryview, found=list, at=Py_ssize_t, end=Py_ssize_t, size=Py_ssize_t, smallest=Py_ssize_t, magic=int,
    header=BatchHeader
)
cpdef list batches(data, bint may_end_early=*)

@cython.locals(batch=Batch)
cdef Batch _batch(memoryview data, int magic, BatchHeader header)
