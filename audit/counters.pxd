from libc.stdint cimport int64_t


cdef class ProduceCounter:
    cdef public object key
    cdef public int index

    cpdef count(
        self, int64_t timestamp, int64_t count, int64_t size, result, int64_t base_offset, double latency_s
    )


cdef class FetchCounter:
    cpdef count(
        self, int64_t timestamp, int64_t count, int64_t size, int64_t first_offset, int64_t last_offset,
        double latency_s, int64_t hidden, int64_t aborted,
    )


cdef class ProducedCalls(ProduceCounter):
    cdef object _call
    cdef tuple _whose


cdef class DeliveredCalls(FetchCounter):
    cdef object _call
    cdef tuple _whose
