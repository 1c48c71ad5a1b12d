cimport cython
from libc.stdint cimport int64_t

from kafka_sidecar.audit.counters cimport FetchCounter
from kafka_sidecar.codec.fetch_counts cimport FetchWalk, Shown
from kafka_sidecar.codec.fetch_positions cimport FetchPositions
from kafka_sidecar.proxy.features.auditing.client cimport NO_CLIENT, TappedClient
from kafka_sidecar.proxy.relay.watch cimport Tap, Watch

cdef int64_t _NOTHING_MORE
cdef Py_ssize_t _MAX_KEPT, _MAX_ROWS_DUE


cdef class FetchTap(Tap):
    cdef readonly object clock, counting, find_group
    cdef readonly int version
    cdef readonly int64_t bucket_ms
    cdef list _due
    cdef Py_ssize_t _rows_due
    cdef bint _is_due

    @cython.locals(known=TappedClient, watch=FetchWatch, idle=Watch)
    cpdef Watch begin(self, client, state, double now)
    cdef int deliver(self, TappedClient state, list rows, double now_s) except -1
    cpdef count_due(self)
    @cython.locals(due=list, state=TappedClient, rows=list, now_s=double, row=Shown)
    cdef int count_all(self) except -1
    @cython.locals(count=int64_t, latency_s=double, counter=FetchCounter)
    cdef object count(self, TappedClient state, Shown row, group, int64_t hidden, double now_s)
    cdef object count_large(self, TappedClient state, Shown row, group, large)


cdef class FetchWatch(Watch):
    cdef object _client, _large, _pieces
    cdef FetchTap _tap
    cdef TappedClient _state
    cdef FetchPositions _positions
    cdef list _received
    cdef FetchWalk _walk
    cdef double _now_s
    cdef bint _is_read, _is_whole

    @cython.locals(state=TappedClient)
    cpdef done(self)
    cpdef request(self, bytes data, Py_ssize_t start, Py_ssize_t end, bint last)
    @cython.locals(walk=FetchWalk)
    cpdef received(self, bytes frame)
    cpdef large_messages(self, found)
    @cython.locals(walk=FetchWalk)
    cpdef response(self, bytes data, Py_ssize_t start, Py_ssize_t end, bint last, double now)
    @cython.locals(positions=FetchPositions)
    cdef FetchWalk _begin(self, int64_t bucket_ms)
    cdef _feed(self, FetchWalk walk, bytes data, Py_ssize_t start, Py_ssize_t end)
    @cython.locals(tap=FetchTap, state=TappedClient, now_s=double, row=Shown, hidden=int64_t)
    cdef _count_shown(self, list received, list shown)
