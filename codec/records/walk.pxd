cimport cython

from kafka_sidecar.codec.records.record cimport Record


@cython.final
cdef class Records:
    cdef readonly bytes payload
    cdef Py_ssize_t _count
    cdef object _base_timestamp, _append_time, _starts

    @cython.locals(record=Record)
    cdef Record _cursor(self)
    @cython.locals(record=Record)
    cdef _found_starts(self)
