cimport cython
from libc.stdint cimport int64_t

from kafka_sidecar.codec.int64_list cimport Int64List
from kafka_sidecar.audit.ranges cimport OffsetRanges

cdef int64_t _LATE


@cython.final
cdef class Room:
    cdef public int64_t keys, ranges
    cdef readonly int64_t max_keys
    cdef readonly object lost_min_ts, lost_max_ts

    cpdef lose(self, event_time)


@cython.final
cdef class Tally:
    cdef readonly object client_id, principal, group, topic, partition, bucket_start
    cdef public int64_t count, bytes, untimed, repeated, rejected, unconfirmed, hidden, aborted
    cdef readonly int64_t large, segments, repeated_large, repeated_segments
    cdef readonly int64_t min_ts, max_ts
    cdef readonly OffsetRanges offsets
    cdef Int64List _latencies
    cdef Room _room

    cdef int add(self, int64_t count, int64_t size, int64_t event_time) except -1
    cdef int add_latency(self, int64_t count, double latency_s) except -1
    cdef int add_offsets(self, int64_t first, int64_t last) except -1
    cdef int add_large(self, int64_t segments, bint is_repeated) except -1
    cpdef add_all(self, Tally other)


@cython.final
cdef class Tallies:
    cdef readonly dict by_key
    cdef Room _room

    @cython.locals(room=Room, tally=Tally, other=Tally)
    cpdef Tally new(self, key, client_id, principal, group, topic, partition, bucket, event_time)
