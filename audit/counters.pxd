cimport cython
from libc.stdint cimport int64_t

cdef int _NONE, _ONCE


@cython.final
@cython.no_gc
@cython.freelist(8)
cdef class BatchCount:
    cdef readonly int64_t timestamp, count, size, first_offset, last_offset, hidden, aborted, deliveries
    cdef readonly object result
    cdef readonly double latency_s


@cython.locals(batch=BatchCount)
cdef BatchCount sent_batch(
    int64_t timestamp, int64_t count, int64_t size, object result, int64_t base_offset, double latency_s
)

@cython.locals(batch=BatchCount)
cdef BatchCount delivered_batch(
    int64_t timestamp, int64_t count, int64_t size, int64_t first_offset, int64_t last_offset, double latency_s
)


cdef class ProduceCounter:
    cdef public object key
    cdef public int index

    cpdef count(self, BatchCount batch)


cdef class FetchCounter:
    cpdef count(self, BatchCount batch)


cdef class ProducedCalls(ProduceCounter):
    cdef object _call
    cdef tuple _whose


cdef class DeliveredCalls(FetchCounter):
    cdef object _call
    cdef tuple _whose
