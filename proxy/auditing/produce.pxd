cimport cython
from libc.stdint cimport int64_t

from kafka_sidecar.audit.counters cimport ProduceCounter
from kafka_sidecar.codec.produce_counts cimport ProduceWalk, Sent
from kafka_sidecar.proxy.auditing.client cimport NO_CLIENT, TappedClient
from kafka_sidecar.proxy.relay.watch cimport Tap, Watch

cdef int64_t _NOTHING_MORE
cdef int _NO_OFFSET, _NOT_ANSWERED, _DUPLICATE
cdef Py_ssize_t _MAX_KEPT
cdef list NOTHING
cdef object ACKED, UNCONFIRMED, REJECTED, FAILED, UNKNOWN


cdef class ProduceTap(Tap):
    cdef readonly dict attempts
    cdef readonly object counting
    cdef readonly int version

    @cython.locals(known=TappedClient, watch=ProduceWatch, idle=Watch)
    cpdef Watch begin(self, client, state, double now)


cdef class ProduceWatch(Watch):
    cdef object _forwarded, _pieces
    cdef list _sent
    cdef ProduceTap _tap
    cdef TappedClient _client
    cdef double _since
    cdef bint _is_abandoned, _is_whole
    cdef ProduceWalk _walk

    @cython.locals(state=TappedClient)
    cpdef done(self)
    @cython.locals(walk=ProduceWalk)
    cpdef request(self, bytes data, Py_ssize_t start, Py_ssize_t end, bint last)
    @cython.locals(walk=ProduceWalk)
    cdef int _feed(self, bytes data, Py_ssize_t start, Py_ssize_t end, bint last) except -1
    @cython.locals(walk=ProduceWalk, one=Sent)
    cpdef forwarded(self, bytes frame)
    cpdef unanswered(self)
    cpdef abandoned(self)
    cpdef lost(self, str why)
    cdef int _count_unknown(self) except -1
    cpdef response(self, bytes data, Py_ssize_t start, Py_ssize_t end, bint last, double now)
    @cython.locals(sent=list, place=Py_ssize_t, one=Sent, are_stored=bint, timestamp=int64_t)
    cdef bint _count_all(self, ending, double latency_s) except -1
    cdef object _result(self, Sent one, ending)
    @cython.locals(counter=ProduceCounter)
    cdef int _count(self, Sent one, int64_t timestamp, result, int64_t base, double latency_s) except -1
