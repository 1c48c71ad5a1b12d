cimport cython
from libc.stdint cimport int64_t

from kafka_sidecar.audit.counters cimport BatchCount, ProduceCounter, sent_batch
from kafka_sidecar.codec.produce_counts cimport ProduceWalk, Sent, acknowledge
from kafka_sidecar.proxy.features.auditing.connection cimport NO_CLIENT, AuditedConnection, CountingTap, connection_of
from kafka_sidecar.proxy.relay.watch cimport Tap, Watch

cdef int _NO_OFFSET, _NOT_ANSWERED, _DUPLICATE
cdef list NOTHING
cdef object ACKED, UNCONFIRMED, REJECTED, FAILED, UNKNOWN


cdef class ProduceTap(CountingTap):
    cdef readonly dict attempts

    @cython.locals(known=AuditedConnection, watch=ProduceWatch, idle=Watch)
    cpdef Watch begin(self, client, state, double now)
    @cython.locals(are_stored=bint, one=Sent)
    cdef int end(
        self, AuditedConnection client, list sent, ending, double latency_s, forwarded, bint was_abandoned
    ) except -1
    @cython.locals(
        one=Sent, timestamp=int64_t, base=int64_t, client=AuditedConnection, batch=BatchCount, counter=ProduceCounter
    )
    cdef int count(self, row) except -1
    @cython.locals(one=Sent, is_stored=bint, base=int64_t)
    cdef int count_large(self, AuditedConnection client, list sent, large, forwarded, ending) except -1


cdef class ProduceWatch(Watch):
    cdef object _forwarded, _large, _parts
    cdef list _sent
    cdef ProduceTap _tap
    cdef AuditedConnection _client
    cdef double _since
    cdef bint _is_abandoned
    cdef ProduceWalk _walk

    @cython.locals(client=AuditedConnection)
    cpdef done(self)
    @cython.locals(walk=ProduceWalk, version=int)
    cpdef request(self, bytes data, Py_ssize_t start, Py_ssize_t end, bint last)
    @cython.locals(walk=ProduceWalk, one=Sent)
    cpdef forwarded(self, bytes frame)
    cpdef large_messages(self, found)
    cpdef unanswered(self)
    cpdef abandoned(self)
    cpdef lost(self, str why)
    cpdef response(self, bytes data, Py_ssize_t start, Py_ssize_t end, bint last, double now)
    @cython.locals(tap=ProduceTap)
    cdef int _end(self, ending, double latency_s) except -1


cdef object _result(Sent one, ending, forwarded)
