cimport cython
from libc.stdint cimport int64_t

from kafka_sidecar.codec.produce_counts cimport ProduceWalk, Sent
from kafka_sidecar.codec.produce_notes cimport ProduceNotes
from kafka_sidecar.proxy.features.auditing.client cimport NO_CLIENT, TappedClient, tapped
from kafka_sidecar.proxy.features.auditing.produce_results cimport ProduceResults
from kafka_sidecar.proxy.relay.watch cimport Tap, Watch

cdef int64_t _NOTHING_MORE
cdef Py_ssize_t _MAX_ANSWERED
cdef double _US_PER_S
cdef list NOTHING
cdef object UNCONFIRMED, UNKNOWN


cdef class ProduceTap(Tap):
    cdef readonly object counting
    cdef readonly int version
    cdef ProduceNotes notes
    cdef ProduceResults results

    cpdef Watch begin(self, client, state, double now)
    @cython.locals(known=TappedClient, queue=ProduceQueue, watch=ProduceWatch)
    cpdef Watch show_request(
        self, client, state, frames, bytes data, Py_ssize_t at, Py_ssize_t size, waits, double now
    )


cdef class ProduceQueue(Watch):
    cdef TappedClient _client
    cdef ProduceTap _tap
    cdef ProduceNotes _notes
    cdef object _pieces
    cdef bint _is_abandoned, _is_due

    cdef bint ask(self, TappedClient client, bytes data, Py_ssize_t start, Py_ssize_t end, double now) except -1
    cpdef show_response(self, frames, bytes data, Py_ssize_t at, Py_ssize_t size, double now)
    cpdef response(self, bytes data, Py_ssize_t start, Py_ssize_t end, bint last, double now)
    @cython.locals(notes=ProduceNotes, results=ProduceResults, now_us=int64_t, sent=list, latency_s=double)
    cdef int _answer(self, bytes data, Py_ssize_t start, Py_ssize_t end, double now) except -1
    cdef bint _waits(self) except -1
    cpdef count_due(self)
    cpdef abandoned(self)
    cpdef lost(self, str why)
    @cython.locals(notes=ProduceNotes, results=ProduceResults, answer=bytes, latency_s=double)
    cdef int count_answered(self) except -1
    cdef int _forget_counted(self) except -1


cdef class ProduceWatch(Watch):
    cdef object _forwarded, _large, _pieces
    cdef list _sent
    cdef ProduceTap _tap
    cdef TappedClient _client
    cdef double _since
    cdef bint _is_abandoned
    cdef ProduceWalk _walk

    @cython.locals(notes=ProduceNotes)
    cpdef request(self, bytes data, Py_ssize_t start, Py_ssize_t end, bint last)
    @cython.locals(walk=ProduceWalk)
    cdef int _feed(self, bytes data, Py_ssize_t start, Py_ssize_t end, bint last) except -1
    @cython.locals(walk=ProduceWalk, one=Sent)
    cpdef forwarded(self, bytes frame)
    cpdef large_messages(self, found)
    cpdef unanswered(self)
    cpdef abandoned(self)
    cpdef lost(self, str why)
    @cython.locals(queue=ProduceQueue)
    cdef int _count_earlier(self) except -1
    @cython.locals(results=ProduceResults)
    cpdef response(self, bytes data, Py_ssize_t start, Py_ssize_t end, bint last, double now)
