cimport cython

cdef double _BUCKETS_PER_E
cdef int _MAX_INDEX


@cython.locals(position=double)
cpdef int bucket_of(double latency_ms) except -1
