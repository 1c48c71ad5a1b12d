cimport cython
from libc.stdint cimport int64_t

from kafka_sidecar.audit.counters cimport BatchCount
from kafka_sidecar.audit.memory cimport AckMemory, Delivered, Recent
from kafka_sidecar.audit.ranges cimport OffsetRanges
from kafka_sidecar.audit.tally cimport Room, Tallies, Tally


@cython.final
cdef class Memory:
    cdef readonly AckMemory acks
    cdef readonly Recent commits, readers

    @cython.locals(seen=Delivered)
    cpdef Delivered delivered(self, client, group, topic, partition)


@cython.final
cdef class EventStats:
    cdef readonly int64_t bucket_ms
    cdef readonly Room room
    cdef readonly dict copies
    cdef readonly Tallies acked, failed, unknown, delivered, shared, committed

    @cython.locals(tallies=Tallies)
    cpdef Tally produced(self, client, topic, partition, int64_t event_time, result)
    cpdef Tally read(self, client, group, topic, partition, int64_t event_time)
    @cython.locals(bucket=int64_t, key=tuple, tally=Tally)
    cdef Tally _tally(self, Tallies tallies, client, group, topic, partition, int64_t event_time)
    cpdef Tally acquired(self, client, group, topic, partition, int64_t event_time)
    @cython.locals(tally=Tally)
    cpdef add_duplicated(self, client, topic, partition, int64_t event_time, BatchCount batch, is_certain)
    @cython.locals(tally=Tally)
    cpdef add_done(
        self, client, group, topic, partition, int64_t first, int64_t last, int64_t event_time
    )
