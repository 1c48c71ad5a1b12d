cimport cython
from libc.stdint cimport int64_t

from kafka_sidecar.audit.counters cimport FetchCounter, ProduceCounter
from kafka_sidecar.codec.fetch_counts cimport FetchWalk
from kafka_sidecar.codec.fetch_positions cimport FetchPositions, Offsets
from kafka_sidecar.codec.produce_counts cimport ProduceWalk
from kafka_sidecar.proxy.relay.watch cimport Tap, Watch

cdef Py_ssize_t _MAX_PENDING
cdef int _MAX_IDLE, _MAX_RECENT, _MAX_COUNTERS, _NO_SESSION, _NEW_SESSION, _READ_COMMITTED


@cython.final
cdef class AuditedConnection:
    cdef readonly object audited
    cdef readonly tuple origin
    cdef public int session_id
    cdef object _group, _key, _read_key
    cdef dict _produced, _producing, _read, _reading
    cdef Offsets _offsets
    cdef list _recent
    cdef Py_ssize_t _place
    cdef Watch _idle
    cdef int _idle_left, _counters_left, _responses_version, _requests_version
    cdef long _topics_generation
    cdef FetchWalk _responses
    cdef ProduceWalk _requests

    @cython.locals(watch=Watch)
    cdef Watch take_idle(self)
    cdef int keep_idle(self, Watch watch) except -1
    @cython.locals(walk=ProduceWalk)
    cdef ProduceWalk produce_walk(self, int version)
    @cython.locals(offsets=Offsets, is_committed_only=bint)
    cdef FetchWalk fetch_walk(self, int version, FetchPositions positions, int64_t bucket_ms, double now_ms)
    cdef object known_topic(self)
    @cython.locals(epoch=int, named=Offsets, offsets=Offsets)
    cpdef Offsets offsets_of(self, FetchPositions positions)
    @cython.locals(place=Py_ssize_t, recent=ProduceCounter)
    cdef ProduceCounter produce_counter(self, counting, key, int index)
    cdef int _expect(self, ProduceCounter found) except -1
    cdef ProduceCounter _new_produce_counter(self, counting, key, int index)
    cdef FetchCounter fetch_counter(self, counting, group, key, index)
    cdef FetchCounter _new_fetch_counter(self, counting, key, index)
    @cython.locals(generation=long)
    cdef check_topics(self, counting)
    cdef _forget_counters(self)
    cdef _make_room(self)


cdef class CountingTap(Tap):
    cdef str _api
    cdef readonly object counting
    cdef readonly int version
    cdef list _pending
    cdef bint _is_flush_due

    cdef int add(self, list rows) except -1
    cpdef flush_pending(self)
    @cython.locals(rows=list)
    cdef int flush(self) except -1
    cdef int try_count(self, row) except -1
    cdef int count(self, row) except -1


cdef AuditedConnection NO_CLIENT

@cython.locals(known=AuditedConnection)
cpdef AuditedConnection connection_of(client, state)
