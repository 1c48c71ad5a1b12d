cimport cython
from libc.stdint cimport int64_t

from kafka_sidecar.audit.counters cimport ProduceCounter
from kafka_sidecar.codec.produce_counts cimport Sent, acknowledge
from kafka_sidecar.codec.produce_notes cimport ProduceNotes
from kafka_sidecar.proxy.features.auditing.client cimport TappedClient

cdef int _NO_OFFSET, _NOT_ANSWERED, _DUPLICATE
cdef double _US_PER_S
cdef object ACKED, FAILED, REJECTED, UNKNOWN


@cython.final
cdef class ProduceResults:
    cdef readonly dict attempts
    cdef readonly object counting
    cdef readonly int version

    cdef answered(
        self, TappedClient client, list sent, bytes data, Py_ssize_t start, Py_ssize_t end, double latency_s,
        forwarded, bint was_abandoned,
    )
    cdef unknown(self, TappedClient client, list sent, forwarded, bint was_abandoned)
    @cython.locals(place=Py_ssize_t, one=Sent, are_stored=bint, timestamp=int64_t, base=int64_t, counter=ProduceCounter)
    cdef bint count(self, TappedClient client, list sent, forwarded, ending, double latency_s) except -1
    @cython.locals(one=Sent, is_stored=bint, base=int64_t)
    cdef count_large(self, TappedClient client, list sent, large, forwarded, ending)
    cdef count_large_answered(
        self, TappedClient client, list sent, bytes data, Py_ssize_t start, Py_ssize_t end, large, forwarded
    )
    @cython.locals(
        is_done=bint, latency_s=double, count=int64_t, size=int64_t, base=int64_t, counter=ProduceCounter
    )
    cdef int count_stored(self, TappedClient client, ProduceNotes notes) except -1
    cdef int _call(
        self, TappedClient client, key, int index, int64_t timestamp, int64_t count, int64_t size, result, int64_t base,
        double latency_s,
    ) except -1


cdef object _result(Sent one, ending, forwarded)
