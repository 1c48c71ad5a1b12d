cimport cython
from libc.stdint cimport int64_t

from kafka_sidecar.audit.counters cimport BatchCount, FetchCounter, delivered_batch
from kafka_sidecar.codec.fetch_counts cimport FetchWalk, BatchRun
from kafka_sidecar.codec.fetch_positions cimport FetchPositions
from kafka_sidecar.proxy.features.auditing.connection cimport NO_CLIENT, AuditedConnection, CountingTap
from kafka_sidecar.proxy.relay.watch cimport Tap, Watch

cdef Py_ssize_t _MAX_KEPT


cdef class FetchTap(CountingTap):
    cdef readonly object clock, find_group
    cdef readonly int64_t bucket_ms

    @cython.locals(known=AuditedConnection, watch=FetchWatch, idle=Watch)
    cpdef Watch begin(self, client, state, double now)
    @cython.locals(row=BatchRun)
    cdef int deliver(self, AuditedConnection state, list rows, double now_s) except -1
    @cython.locals(one=BatchRun, state=AuditedConnection, count=int64_t, batch=BatchCount, counter=FetchCounter)
    cdef int count(self, row) except -1
    cdef object count_large(self, AuditedConnection state, BatchRun row, group, large)


cdef class FetchWatch(Watch):
    cdef object _client, _large, _parts
    cdef FetchTap _tap
    cdef AuditedConnection _state
    cdef FetchPositions _positions
    cdef list _received
    cdef FetchWalk _walk
    cdef double _now_s
    cdef bint _is_read, _is_whole

    @cython.locals(state=AuditedConnection)
    cpdef done(self)
    cpdef request(self, bytes data, Py_ssize_t start, Py_ssize_t end, bint last)
    @cython.locals(walk=FetchWalk)
    cpdef received(self, bytes frame)
    cpdef large_messages(self, found)
    @cython.locals(walk=FetchWalk, rows=list)
    cpdef response(self, bytes data, Py_ssize_t start, Py_ssize_t end, bint last, double now)
    @cython.locals(positions=FetchPositions)
    cdef FetchWalk _begin(self, int64_t bucket_ms)
    cdef int _feed(self, FetchWalk walk, bytes data, Py_ssize_t start, Py_ssize_t end, bint last) except -1
    @cython.locals(tap=FetchTap, state=AuditedConnection, now_s=double, row=BatchRun)
    cdef _count_shown(self, list received, list shown)
