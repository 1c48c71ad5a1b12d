cimport cython
from libc.stdint cimport int64_t

from kafka_sidecar.audit.memory cimport Int64List

cdef int64_t _LATE
cdef int64_t _NONE
cdef double _BUCKETS_PER_E
cdef int _MAX_INDEX


@cython.final
cdef class OffsetRanges:
    cdef object _firsts, _lasts
    cdef int64_t _begin, _end
    cdef readonly bint is_exact

    cdef bint extend(self, int64_t first, int64_t last) except -1
    cpdef add(self, first, last, bint has_room=*)
    cdef _note_end(self)
    cdef _insert(self, first, last, bint has_room)


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


@cython.locals(position=double)
cpdef int bucket_of(double latency_ms) except -1
