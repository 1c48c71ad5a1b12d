cimport cython
from libc.stdint cimport int64_t

from kafka_sidecar.audit.counters cimport BatchCount, ProduceCounter, sent_batch
from kafka_sidecar.codec.produce_counts cimport ProduceWalk, Sent, acknowledge
from kafka_sidecar.proxy.features.auditing.connection cimport NO_CLIENT, AuditedConnection, connection_of
from kafka_sidecar.proxy.relay.watch cimport Tap, Watch

cdef Py_ssize_t _MAX_PENDING
cdef int _NO_OFFSET, _NOT_ANSWERED, _DUPLICATE
cdef list NOTHING
cdef object ACKED, UNCONFIRMED, REJECTED, FAILED, UNKNOWN


cdef class ProduceTap(Tap):
    cdef readonly dict attempts
    cdef readonly object counting
    cdef readonly int version
    cdef list _pending
    cdef Py_ssize_t _pending_batches
    cdef bint _is_flush_due

    @cython.locals(known=AuditedConnection, watch=ProduceWatch, idle=Watch)
    cpdef Watch begin(self, client, state, double now)
    cdef int count(
        self, AuditedConnection client, list sent, ending, double latency_s, forwarded, bint was_abandoned
    ) except -1
    cpdef flush_pending(self)
    @cython.locals(
        pending=list, client=AuditedConnection, sent=list, latency_s=double, was_abandoned=bint
    )
    cdef int flush(self) except -1
    @cython.locals(
        place=Py_ssize_t, one=Sent, are_stored=bint, timestamp=int64_t, base=int64_t, batch=BatchCount,
        counter=ProduceCounter,
    )
    cdef int _count(
        self, AuditedConnection client, list sent, ending, double latency_s, forwarded, bint was_abandoned
    ) except -1
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
